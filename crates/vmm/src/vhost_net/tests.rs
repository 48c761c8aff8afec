use std::fs::OpenOptions;

use super::*;

#[test]
fn a_file_that_is_no_vhost_net_is_refused() {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let error = VhostNet::own(null.into()).unwrap_err();
    assert!(format!("{error:#}").contains("VHOST_SET_OWNER"), "{error:#}");
}

#[test]
fn each_pair_has_a_device_and_a_queue() {
    let queue = || OwnedFd::from(OpenOptions::new().read(true).open("/dev/null").unwrap());
    let device = || Arc::new(VhostNet { device: queue().into() });
    assert!(KernelVhost::new(Vec::new(), Vec::new()).is_err());
    assert!(KernelVhost::new(Vec::new(), vec![queue()]).is_err());
    assert!(KernelVhost::new(vec![device(), device()], vec![queue()]).is_err());
    assert!(KernelVhost::new(vec![device()], vec![queue()]).is_ok());
}

#[test]
fn the_kernel_serves_rings_and_offloads_and_nothing_in_order() {
    let can = KernelVhost::SERVABLE;
    for feature in [features::EVENT_IDX, features::INDIRECT_DESC, features::MRG_RXBUF, request::OFFLOADS] {
        assert_eq!(can & feature, feature);
    }
    assert_eq!(can & features::IN_ORDER, 0);
}
