use std::fs::OpenOptions;
use std::sync::mpsc;
use std::time::Duration;

use super::*;

#[test]
fn a_file_that_is_no_vhost_net_is_refused() {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let error = VhostNet::own(null.into()).err().unwrap();
    assert!(format!("{error:#}").contains("VHOST_SET_OWNER"), "{error:#}");
}

fn queue() -> OwnedFd {
    OpenOptions::new().read(true).open("/dev/null").unwrap().into()
}

fn device() -> Arc<dyn Device> {
    Arc::new(VhostNet { device: queue().into(), serving: Mutex::default() })
}

#[test]
fn each_pair_has_a_device_and_a_queue() {
    assert!(KernelVhost::new(Vec::new(), Vec::new()).is_err());
    assert!(KernelVhost::new(Vec::new(), vec![queue()]).is_err());
    assert!(KernelVhost::new(vec![device(), device()], vec![queue()]).is_err());
    assert!(KernelVhost::new(vec![device()], vec![queue()]).is_ok());
}

/// Identifies the file of a descriptor.
fn file_of(queue: &OwnedFd) -> u64 {
    rustix::fs::fstat(queue).unwrap().st_rdev
}

/// Without a served queue: the driver is not ready.
#[test]
fn queues_of_another_interface_take_the_place_of_those_that_there_were() {
    let vhost = KernelVhost::new(vec![device(), device()], vec![queue(), queue()]).unwrap();
    let new: OwnedFd = OpenOptions::new().read(true).open("/dev/zero").unwrap().into();
    assert!(vhost.replace([new.as_fd()].into_iter()).is_err(), "there are two pairs");
    let files = || vhost.pairs.iter().map(|(_, queue)| file_of(queue)).collect::<Vec<_>>();
    assert_eq!(files(), [file_of(&queue()); 2]);
    vhost.replace([new.as_fd(), new.as_fd()].into_iter()).unwrap();
    assert_eq!(files(), [file_of(&new); 2]);
    assert_eq!(vhost.fault(), None);
}

#[test]
fn the_kernel_serves_rings_and_offloads_and_nothing_in_order() {
    let can = KernelVhost::SERVABLE;
    for feature in [features::EVENT_IDX, features::INDIRECT_DESC, features::MRG_RXBUF, request::OFFLOADS] {
        assert_eq!(can & feature, feature);
    }
    assert_eq!(can & features::IN_ORDER, 0);
}

/// A vCPU holds the state while the kernel ends what its thread is about to do.
#[test]
fn a_fault_is_told_while_rings_change_hands() {
    let vhost = KernelVhost::new(vec![device()], vec![queue()]).unwrap();
    vhost.set_fault(Some("vhost-net: no".to_owned()));
    let changing = vhost.state();
    let (tell, told) = mpsc::channel();
    let asked = vhost.clone();
    let asker = std::thread::spawn(move || tell.send(asked.fault()));
    let fault = told.recv_timeout(Duration::from_secs(60));
    drop(changing);
    asker.join().unwrap().unwrap();
    assert_eq!(fault, Ok(Some("vhost-net: no".to_owned())));
    let _writing = vhost.fault.lock().unwrap();
    assert_eq!(vhost.fault(), None);
}
