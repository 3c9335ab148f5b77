//! Pods and containers as the cases of the tests write them, and as the kubelet hands them to an engine.

use std::collections::HashMap;

use k8s_cri::v1::{
    ContainerConfig, ContainerMetadata, Device, ImageSpec, KeyValue, LinuxContainerConfig, LinuxContainerSecurityContext,
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
};
use serde::Deserialize;

/// A pod on the host's network, which needs no CNI.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pod {
    name: String,
    /// The folder of its cgroups.
    cgroup: String,
    #[serde(default)]
    annotations: HashMap<String, String>,
    /// `shareProcessNamespace` of the pod's manifest.
    #[serde(default)]
    share_processes: bool,
    /// Are its containers privileged?
    #[serde(default)]
    privileged: bool,
}

/// A container of a pod.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Container {
    name: String,
    image: String,
    command: Vec<String>,
    #[serde(default)]
    env: HashMap<String, String>,
    /// What a device plugin gives: the path in the container, and the one on the host.
    #[serde(default)]
    devices: HashMap<String, String>,
    /// How often the kubelet has started this container before.
    #[serde(default)]
    attempt: u32,
}

impl Pod {
    pub(crate) fn config(&self) -> PodSandboxConfig {
        let metadata =
            PodSandboxMetadata { name: self.name.clone(), uid: format!("uid-{}", self.name), namespace: "default".to_owned(), attempt: 0 };
        let security_context = LinuxSandboxSecurityContext {
            namespace_options: Some(self.namespaces()),
            privileged: self.privileged,
            ..LinuxSandboxSecurityContext::default()
        };
        PodSandboxConfig {
            metadata: Some(metadata),
            labels: self.labels(),
            annotations: self.annotations.clone(),
            linux: Some(LinuxPodSandboxConfig {
                cgroup_parent: self.cgroup.clone(),
                security_context: Some(security_context),
                ..LinuxPodSandboxConfig::default()
            }),
            ..PodSandboxConfig::default()
        }
    }

    fn namespaces(&self) -> NamespaceOption {
        let pid = if self.share_processes { NamespaceMode::Pod } else { NamespaceMode::Container };
        NamespaceOption {
            network: NamespaceMode::Node.into(),
            pid: pid.into(),
            ipc: NamespaceMode::Pod.into(),
            ..NamespaceOption::default()
        }
    }

    fn labels(&self) -> HashMap<String, String> {
        let labels = [("pod.name", &*self.name), ("pod.namespace", "default"), ("pod.uid", &format!("uid-{}", self.name))];
        labels.map(|(key, value)| (format!("io.kubernetes.{key}"), value.to_owned())).into()
    }
}

impl Container {
    pub(crate) fn config(&self, pod: &Pod) -> ContainerConfig {
        let security_context = LinuxContainerSecurityContext {
            namespace_options: Some(pod.namespaces()),
            privileged: pod.privileged,
            ..LinuxContainerSecurityContext::default()
        };
        let mut labels = pod.labels();
        labels.insert("io.kubernetes.container.name".to_owned(), self.name.clone());
        ContainerConfig {
            metadata: Some(ContainerMetadata { name: self.name.clone(), attempt: self.attempt }),
            image: Some(ImageSpec { image: self.image.clone(), ..ImageSpec::default() }),
            command: self.command.clone(),
            envs: self.env.iter().map(|(key, value)| KeyValue { key: key.clone(), value: value.clone() }).collect(),
            devices: self.devices.iter().map(device).collect(),
            labels,
            linux: Some(LinuxContainerConfig { security_context: Some(security_context), ..LinuxContainerConfig::default() }),
            ..ContainerConfig::default()
        }
    }
}

fn device((in_container, on_host): (&String, &String)) -> Device {
    Device { container_path: in_container.clone(), host_path: on_host.clone(), permissions: "rw".to_owned() }
}
