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
    assert!(KernelVhost::new(Vec::new(), Vec::new()).is_err());
    let queue = OpenOptions::new().read(true).open("/dev/null").unwrap();
    assert!(KernelVhost::new(Vec::new(), vec![queue.into()]).is_err());
}

#[test]
fn the_kernel_serves_rings_and_offloads_and_nothing_in_order() {
    let file = File::open("/dev/null").unwrap();
    let device = VhostNet { device: file, features: features::VERSION_1 | features::EVENT_IDX };
    let can = device.servable();
    assert_ne!(can & features::EVENT_IDX, 0);
    assert_ne!(can & request::OFFLOADS, 0);
    for feature in [features::IN_ORDER, features::INDIRECT_DESC, features::MRG_RXBUF] {
        assert_eq!(can & feature, 0);
    }
}
