//! Complete life cycle of an instance in a thread that may open nothing: all it needs was opened before.

use std::sync::Arc;
use std::time::Instant;

use engine::{Class, Confinement, HostServices, Instance, Plugs};

use crate::traffic::{Stream, alone, capture, kvm, plan, router};

#[test]
fn a_confined_owner_starts_changes_and_stops_routers() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let open = Arc::new(vmm::open_kvm().expect("KVM"));
    let opened = [("two.in".to_owned(), capture(tempfile::tempfile().expect("a file")))].into();
    let text = |more: &str| {
        let two = router("two", 2, more).replacen("attach = 'null'", "attach = 'pcap:two.pcap'", 1);
        router("one", 1, "") + &two
    };
    let supplies = HostServices {
        plugs,
        opened,
        kvm: Some(open),
        confinement: Confinement::On,
        ..HostServices::default()
    };
    let owner = std::thread::spawn(move || {
        Confinement::On.enter(Class::Control).expect("a filter");
        assert!(std::fs::File::open("/dev/null").is_err(), "nothing can be opened any more");
        let mut instance = Instance::start(&plan(&text("")), supplies).expect("it starts");
        stream.flows(50);
        instance.restart_router("two").expect("it starts again");
        let route = "[[router.route]]\nto = '10.8.0.0/16'\nvia = '10.2.1.2'\n";
        let three = router("three", 3, "");
        for file in [text("memory = '64M'"), text("") + route, text("") + &three, text("spin = '0us'")] {
            instance.apply(&plan(&file), HostServices::default()).expect("it is applied");
            instance.look_after(Instant::now());
            assert!(instance.status().iter().all(|status| status.state == engine::State::Running));
            stream.flows(20);
        }
        let mut spent = 0;
        instance.each_thread(&mut |_, nanoseconds| spent += nanoseconds);
        assert!(spent > 0, "threads are charged for their time");
        stream.ends_whole();
    });
    owner.join().expect("it could do everything");
}
