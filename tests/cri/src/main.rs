//! Plays kubelet to a container engine: one call of the Container Runtime Interface (CRI, version v1) each time it is run.
//!
//!     cri-client SOCKET VERB ARGUMENT…
//!
//! | verb | what it prints |
//! |---|---|
//! | `version` | the engine's name and version |
//! | `has-image IMAGE` | nothing; fails where the engine does not know the image |
//! | `run-pod HANDLER POD` | the sandbox's id; HANDLER is the RuntimeClass's, "" the engine's default |
//! | `create SANDBOX POD CONTAINER` | the container's id |
//! | `start ID` | |
//! | `exec ID COMMAND…` | what the command prints; ends with its exit code |
//! | `pid ID` | the pid of the container's own process, on the host |
//! | `state ID` | `created`, `running`, `exited CODE` |
//! | `stop ID`, `remove ID`, `stop-pod ID`, `remove-pod ID` | |
//!
//! POD and CONTAINER are JSON files, see [`pod`]. What the engine answers in place of a result goes to stderr as one line.

mod pod;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use k8s_cri::v1::image_service_client::ImageServiceClient;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use k8s_cri::v1::{
    ContainerState, ContainerStatusRequest, ContainerStatusResponse, CreateContainerRequest, ExecSyncRequest, ImageSpec,
    ImageStatusRequest, RemoveContainerRequest, RemovePodSandboxRequest, RunPodSandboxRequest, StartContainerRequest, StopContainerRequest,
    StopPodSandboxRequest, VersionRequest,
};
use serde::de::DeserializeOwned;
use tonic::transport::{Channel, Endpoint};

/// Seconds that a command in a container may take.
const EXEC_LIMIT: i64 = 20;

/// Seconds that a container has between SIGTERM and SIGKILL: none, for nothing in the tests minds.
const GRACE: i64 = 0;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    match runtime.context("cannot begin").and_then(|runtime| runtime.block_on(call())) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {}", format!("{error:#}").replace('\n', " | "));
            ExitCode::FAILURE
        }
    }
}

async fn call() -> Result<ExitCode> {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(OsString::into_string).collect::<Result<_, _>>().ok().context("not UTF-8")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [socket, verb, arguments @ ..] = &*arguments else { bail!("expected SOCKET VERB ARGUMENT…") };
    let channel =
        Endpoint::from_shared(format!("unix:{socket}"))?.connect().await.with_context(|| format!("nobody answers at {socket}"))?;
    let mut engine = RuntimeServiceClient::new(channel.clone());
    match (*verb, arguments) {
        ("version", []) => {
            let version = said(engine.version(VersionRequest::default()).await)?;
            print(format!("{} {}\n", version.runtime_name, version.runtime_version).as_bytes())?;
        }
        ("has-image", [image]) => has_image(channel, image).await?,
        ("run-pod", [handler, pod]) => {
            let request = RunPodSandboxRequest { config: Some(read::<pod::Pod>(pod)?.config()), runtime_handler: (*handler).to_owned() };
            print(said(engine.run_pod_sandbox(request).await)?.pod_sandbox_id.as_bytes())?;
        }
        ("create", [sandbox, pod, container]) => {
            let pod: pod::Pod = read(pod)?;
            let request = CreateContainerRequest {
                pod_sandbox_id: (*sandbox).to_owned(),
                config: Some(read::<pod::Container>(container)?.config(&pod)),
                sandbox_config: Some(pod.config()),
            };
            print(said(engine.create_container(request).await)?.container_id.as_bytes())?;
        }
        ("exec", [id, command @ ..]) => return exec(engine, id, command).await,
        ("pid", [id]) => print(pid(engine, id).await?.to_string().as_bytes())?,
        ("state", [id]) => print(state(engine, id).await?.as_bytes())?,
        ("start", [id]) => {
            said(engine.start_container(StartContainerRequest { container_id: (*id).to_owned() }).await)?;
        }
        ("stop", [id]) => {
            said(engine.stop_container(StopContainerRequest { container_id: (*id).to_owned(), timeout: GRACE }).await)?;
        }
        ("remove", [id]) => {
            said(engine.remove_container(RemoveContainerRequest { container_id: (*id).to_owned() }).await)?;
        }
        ("stop-pod", [id]) => {
            said(engine.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: (*id).to_owned() }).await)?;
        }
        ("remove-pod", [id]) => {
            said(engine.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id: (*id).to_owned() }).await)?;
        }
        _ => bail!("unknown verb, or not its arguments: {verb} {}", arguments.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}

async fn has_image(channel: Channel, image: &str) -> Result<()> {
    let image_spec = ImageSpec { image: image.to_owned(), ..ImageSpec::default() };
    let request = ImageStatusRequest { image: Some(image_spec), verbose: false };
    let status = said(ImageServiceClient::new(channel).image_status(request).await)?;
    status.image.with_context(|| format!("{image} is not known")).map(drop)
}

async fn exec(mut engine: RuntimeServiceClient<Channel>, id: &str, command: &[&str]) -> Result<ExitCode> {
    let cmd = command.iter().map(|&word| word.to_owned()).collect();
    let request = ExecSyncRequest { container_id: id.to_owned(), cmd, timeout: EXEC_LIMIT };
    let answer = said(engine.exec_sync(request).await)?;
    print(&answer.stdout)?;
    io::stderr().write_all(&answer.stderr)?;
    Ok(u8::try_from(answer.exit_code).map_or(ExitCode::FAILURE, ExitCode::from))
}

async fn state(engine: RuntimeServiceClient<Channel>, id: &str) -> Result<String> {
    let status = status(engine, id).await?.status.context("no status in the answer")?;
    Ok(match status.state() {
        ContainerState::ContainerCreated => "created".to_owned(),
        ContainerState::ContainerRunning => "running".to_owned(),
        ContainerState::ContainerExited => format!("exited {}", status.exit_code),
        ContainerState::ContainerUnknown => "unknown".to_owned(),
    })
}

/// CRI itself knows no pids; containerd tells them in what it adds for people.
async fn pid(engine: RuntimeServiceClient<Channel>, id: &str) -> Result<u64> {
    let info = status(engine, id).await?.info;
    let info: serde_json::Value = serde_json::from_str(info.get("info").context("no info in the answer")?)?;
    info["pid"].as_u64().context("no pid in the info")
}

async fn status(mut engine: RuntimeServiceClient<Channel>, id: &str) -> Result<ContainerStatusResponse> {
    said(engine.container_status(ContainerStatusRequest { container_id: id.to_owned(), verbose: true }).await)
}

/// What the engine answered.
fn said<T>(answer: Result<tonic::Response<T>, tonic::Status>) -> Result<T> {
    match answer {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => bail!("{:?}: {}", status.code(), status.message()),
    }
}

fn read<T: DeserializeOwned>(path: &str) -> Result<T> {
    let text = std::fs::read(Path::new(path)).with_context(|| format!("cannot read {path}"))?;
    serde_json::from_slice(&text).with_context(|| path.to_owned())
}

fn print(text: &[u8]) -> Result<()> {
    io::stdout().write_all(text).context("cannot write")
}
