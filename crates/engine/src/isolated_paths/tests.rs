use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{bail, ensure};
use attach::{Attachment, Ports, ServiceContext};
use config::Plan;
use port::Null;
use uplink::SocketBroker;

use super::*;
use crate::instance::Instance;

/// A port that cannot be opened the first time.
struct Reluctant {
    port: Arc<dyn Attachment>,
    was_asked: AtomicBool,
}

impl Attachment for Reluctant {
    fn ports(&self, service: &ServiceContext<'_>) -> Result<Ports> {
        ensure!(self.was_asked.swap(true, Ordering::Relaxed), "no descriptors are left");
        self.port.ports(service)
    }

    fn replace(&self, _: HandedOver) -> Result<()> {
        bail!("it has no link")
    }
}

#[test]
fn a_change_is_made_although_paths_cannot_be_opened_and_they_are_opened_later() {
    let text = "[[router]]\nname = 'r'\nengine = 'kvm'\nisolate = 'process'\n\
                [[router.nic]]\nname = 'n'\nattach = 'null'\n";
    let plan = config::parse(text, "r.toml").expect("a good file");
    let broker = SocketBroker::new("r.n").expect("descriptors");
    let door = HandedOver::of(attach::of_door(broker.back())).expect("descriptors");
    let port = attach::port(Box::new(Null::new()), Arc::new(Null::new()));
    let plug: Arc<dyn Attachment> = Arc::new(Reluctant { port, was_asked: AtomicBool::new(false) });
    let supplies = HostServices {
        plugs: [("r.n".to_owned(), plug)].into(),
        doors: [("r.n".to_owned(), door)].into(),
        ..HostServices::default()
    };
    let mut instance = Instance::start(&Plan::default(), HostServices::default()).expect("it starts");
    instance.apply(&plan, supplies).expect("the change is made");
    assert_eq!(*instance.plan(), plan);
    let now = Instant::now();
    let events = instance.look_after(now);
    let told: Vec<_> = events.iter().map(|event| (event.kind, event.message.as_str())).collect();
    assert_eq!(told, [(Kind::Failed, "router r, NIC n: no descriptors are left; it is tried again")]);
    while instance.isolated_paths[0].open.is_none() {
        assert!(now.elapsed() < Duration::from_secs(60), "they stay closed");
        instance.look_after(now + PAUSE);
        std::thread::yield_now();
    }
}

#[test]
fn a_router_s_process_shares_its_memory_and_another_machine_what_the_file_says() {
    let text = "[[router]]\nname = 'r'\nmemory = '64M'\nisolate = 'process'\n\
                [[router.nic]]\nname = 'n'\nattach = 'vhost-user-backend:v.sock'\nmemory_max = '2G'\n";
    let plan = config::parse(text, "r.toml").expect("a good file");
    let (router, nic) = plan.nics().next().expect("a NIC");
    assert_eq!(router.wanted(nic).memory_max, 2 << 30);
    assert_eq!(
        peer_requirements(router, nic),
        NicRequirements { memory_max: 64 << 20, ..router.wanted(nic) }
    );
}
