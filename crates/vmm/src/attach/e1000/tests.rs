use std::sync::mpsc::channel;

use nic::e1000::register::{CTRL, STATUS};

use super::super::nic_slot;
use super::super::tests::driver::{config_of, machine};
use super::*;

/// Time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bit of STATUS that shows the link as up.
const LINK_UP: u32 = 2;

/// Bit of CTRL that a driver sets to bring the link up.
const SET_LINK_UP: u32 = 1 << 6;

fn is_up(device: &mut E1000Device) -> bool {
    let mut status = [0; 4];
    assert!(device.memory_read(bar_of(nic_slot(0)) + STATUS, &mut status));
    u32::from_le_bytes(status) & LINK_UP != 0
}

/// A thread that raises the device's interrupt may block on the kernel, or wait for a CPU.
#[test]
fn a_cable_is_pulled_out_without_waiting_for_who_interrupts() {
    let (machine, _) = machine(&[], false);
    let mut device = E1000Device::new(&machine, 0, &config_of(TransmitMode::Async), false).expect("a NIC");
    device.config_write(CONFIG_BAR0, &(bar_of(nic_slot(0)) as u32).to_le_bytes());
    // Memory space enable, in the command register.
    device.config_write(4, &[2, 0]);
    assert!(device.memory_write(bar_of(nic_slot(0)) + CTRL, &SET_LINK_UP.to_le_bytes()));
    assert!(is_up(&mut device));
    let intx = device.intx.clone();
    let ((is_in, came_in), (go, go_on), (tell, told)) = (channel(), channel::<()>(), channel());
    let interrupting = std::thread::spawn(move || {
        intx.with(|_, _| {
            is_in.send(()).expect("it is waited for");
            let _ = go_on.recv_timeout(PATIENCE);
        });
    });
    came_in.recv_timeout(PATIENCE).expect("it interrupts");
    let control = std::thread::spawn(move || {
        device.set_link(false);
        // The receiver may have timed out.
        let _ = tell.send(());
        device
    });
    let goes_on = told.recv_timeout(PATIENCE / 2);
    go.send(()).expect("it waits for that");
    interrupting.join().expect("no panic");
    let mut device = control.join().expect("no panic");
    assert_eq!(goes_on, Ok(()), "control waits for who interrupts");
    assert!(is_up(&mut device), "nothing was changed by halves");
    device.set_link(false);
    assert!(!is_up(&mut device), "it was said again");
}
