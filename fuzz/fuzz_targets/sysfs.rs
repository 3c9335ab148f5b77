//! Files of the driver with anything in them: an inventory, or an error; and a choice among what is there.

#![no_main]

use std::cell::LazyCell;
use std::fs;

use libfuzzer_sys::fuzz_target;
use neuron_container_runtime::host::Host;
use neuron_container_runtime::request::Want;
use neuron_container_runtime::select::{Policy, select};
use neuron_container_runtime::settings::Settings;

thread_local! {
    static ROOT: LazyCell<tempfile::TempDir> = LazyCell::new(|| {
        let root = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        for chip in ["neuron0", "neuron1"] {
            fs::create_dir_all(root.path().join("sys/class/neuron_device").join(chip).join("info/architecture")).expect("a folder");
            fs::create_dir_all(root.path().join("dev")).expect("a folder");
            fs::write(root.path().join("dev").join(chip), "").expect("a file");
        }
        for folder in ["sys/class/dmi/id", "sys/module/neuron"] {
            fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        root
    });
}

fuzz_target!(|input: [&[u8]; 7]| {
    ROOT.with(|root| {
        let class = root.path().join("sys/class/neuron_device");
        let mut texts = input.into_iter();
        for (chip, dev) in [("neuron0", "240:0\n"), ("neuron1", "240:1\n")] {
            let text = texts.next().unwrap_or_default();
            fs::write(class.join(chip).join("dev"), if text.is_empty() { dev.as_bytes() } else { text }).expect("a file");
            for file in ["connected_devices", "core_count"] {
                fs::write(class.join(chip).join(file), texts.next().unwrap_or_default()).expect("a file");
            }
            fs::write(class.join(chip).join("reset"), "1").expect("a file");
        }
        fs::write(root.path().join("sys/module/neuron/version"), texts.next().unwrap_or_default()).expect("a file");
        let host = Host::new(&Settings { host_root: Some(root.path().to_owned()), ..Settings::default() });
        let Ok(inventory) = host.discover() else { return };
        for want in [Want::All, Want::Any(1), Want::Any(2)] {
            let _ = select(&inventory, &[], want, &Policy::default()).map_err(|shortage| shortage.to_string());
        }
    });
});
