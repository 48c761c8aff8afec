use std::fs::{File, OpenOptions};

use super::adopt_kvm;

#[test]
fn kvm_is_known_by_its_descriptor() {
    let null = File::open("/dev/null").expect("null");
    assert!(adopt_kvm(null.into()).is_err());
    match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(device) => assert!(adopt_kvm(device.into()).is_ok()),
        Err(error) => println!("SKIPPED: cannot open /dev/kvm: {error}"),
    }
}
