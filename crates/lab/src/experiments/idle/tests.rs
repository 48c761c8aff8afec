use config::Engine;

use super::{Memory, plan};

#[test]
fn mappings_are_told_apart_by_their_names() {
    let smaps = "\
7f0000000000-7f0000200000 rw-s 00000000 00:01 5 /memfd:ringroad-a (deleted)
Size: 2048 kB
Pss: 100 kB
Pss_Dirty: 100 kB
7f0000200000-7f0000400000 rw-s 00000000 00:01 6 /memfd:ringroad-fib (deleted)
Pss: 20 kB
7f0000400000-7f0000600000 rw-p 00000000 00:00 0
Pss: 3 kB
";
    let memory = Memory::read(smaps);
    assert_eq!((memory.pss, memory.guest_ram, memory.fib), (123.0, 100.0, 20.0));
}

#[test]
fn this_process_has_memory() {
    assert!(Memory::of("self").unwrap().pss > 0.0);
}

#[test]
fn the_file_of_idle_routers_is_right() {
    for routers in [1, 10, 100] {
        let plan = plan(routers, 2, Engine::Process).unwrap();
        assert_eq!((plan.routers.len(), plan.switches.len()), (routers, 2));
        assert!(plan.routers.iter().all(|router| router.nics.len() == 2 && router.vcpus == 2));
        assert!(plan.routers.iter().all(|router| router.engine == Some(Engine::Process)));
    }
}
