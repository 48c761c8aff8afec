//! What the file's reader says about memory is what the firmware finds: where the one is content, the other comes up.

use engine::{Instance, Plugs};

use crate::traffic::{alone, kvm};

#[test]
fn the_least_memory_that_a_file_may_give_is_enough() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    for (nics, vcpus, ring) in
        [(1, 1, 256), (8, 1, 256), (2, 2, 1024), (8, 1, 1024), (8, 2, 1024), (1, 8, 512), (4, 16, 256)]
    {
        let nic = |n: u32| format!("[[router.nic]]\nname = 'n{n}'\nattach = 'null'\nring = {ring}\n");
        let nics: String = (0..nics).map(nic).collect();
        let least = (8..1024).step_by(2).find_map(|mib| {
            let text = format!("[[router]]\nname = 'r'\nvcpus = {vcpus}\nmemory = '{mib}M'\n{nics}");
            config::parse(&text, "file.toml").ok()
        });
        let plan = least.expect("some memory is enough");
        let started = Instance::start(&plan, Plugs::new()).map(|_| ());
        assert!(started.is_ok(), "{} MiB, {vcpus} vCPUs, rings of {ring}: {started:?}", plan.memory() >> 20);
    }
}
