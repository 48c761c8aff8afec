//! The memory rules of the file's parser agree with those of the firmware: if the parser accepts a size, the
//! firmware comes up.

use config::Engine;
use engine::{Instance, Plugs};
use vmm::{Firmware, Forker, Spawn};

use crate::traffic::{alone, kvm};

/// The engines that this host can run.
fn engines() -> Vec<Engine> {
    let kvm = kvm().then_some(Engine::Kvm);
    let tried = Forker::new().and_then(|forker| forker.spawn("trial", Firmware::Plain));
    match tried {
        Ok(spawned) => vmm::process::end(&spawned.pidfd),
        Err(error) => {
            println!("SKIPPED: {error:#}");
            return kvm.into_iter().collect();
        }
    }
    kvm.into_iter().chain([Engine::Process]).collect()
}

#[test]
fn the_least_memory_that_a_file_may_give_is_enough() {
    let _turn = alone();
    let engines = engines();
    for (nics, vcpus, ring, mtu) in [
        (1, 1, 256, 1500),
        (8, 1, 256, 1500),
        (2, 2, 1024, 1500),
        (8, 2, 1024, 1500),
        (1, 4, 512, 1500),
        (4, 8, 256, 1500),
        (32, 1, 256, 1500),
        (32, 2, 512, 1500),
        (4, 2, 256, 9216),
    ] {
        let nic =
            |n: u32| format!("[[router.nic]]\nname = 'n{n}'\nattach = 'null'\nring = {ring}\nmtu = {mtu}\n");
        let nics: String = (0..nics).map(nic).collect();
        let least = (8..1024).step_by(2).find_map(|mib| {
            let text = format!("[[router]]\nname = 'r'\nvcpus = {vcpus}\nmemory = '{mib}M'\n{nics}");
            config::parse(&text, "file.toml").ok()
        });
        let mut plan = least.expect("some memory is enough");
        for &engine in &engines {
            plan.routers[0].engine = Some(engine);
            let started = Instance::start(&plan, Plugs::new()).map(|_| ());
            let mib = plan.memory() >> 20;
            assert!(
                started.is_ok(),
                "{engine:?}, {mib} MiB, {vcpus} vCPUs, rings of {ring}, MTU {mtu}: {started:?}"
            );
        }
    }
}
