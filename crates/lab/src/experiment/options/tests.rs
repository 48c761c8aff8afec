use super::*;

#[test]
fn a_step_is_as_long_as_was_asked_for_and_no_shorter_than_it_can_be() {
    let step = |step| Options { step, ..Options::default() }.step(Duration::from_secs(1)).as_secs_f64();
    assert_eq!([None, Some(5.0), Some(0.2), Some(f64::NAN)].map(step), [1.0, 5.0, 1.0, 1.0]);
}

#[test]
fn what_does_not_fit_together_is_one_line() {
    let e1000 = Options { nic: NicModel::E1000, ..Options::default() };
    let base = Options { mode: TransmitMode::Base, ..e1000.clone() };
    let coalesced = Options { mode: TransmitMode::Coalesced, ..e1000.clone() };
    let wrong = [
        (Options { frame: 1515, ..e1000.clone() }, "--segment"),
        (Options { segment: Some(1514), ..e1000.clone() }, "--frame"),
        (Options { queues: 2, ..e1000.clone() }, "one queue pair"),
        (Options { vcpus: 3, ..e1000.clone() }, "two vCPUs"),
        (Options { combine: 8, ..base.clone() }, "send-combining"),
        (Options { combine_above: 8, ..base.clone() }, "--combine-above"),
        (Options { sent_interrupts: Some(TxInterruptPolicy::AtOnce), ..e1000.clone() }, "status block"),
        (Options { engine: "process".to_owned(), ..coalesced.clone() }, "kvm"),
        (
            Options { engine: "process".to_owned(), vhost: VhostThreads::Vmm, ..Options::default() },
            "--vhost vmm",
        ),
        (Options { vhost: VhostThreads::Kernel, ..e1000.clone() }, "virtio-net"),
        (Options { nics: 3, ..Options::default() }, "2, 4, 6 or 8"),
        (Options { nics: 4, vcpus: 2, ..Options::default() }, "one vCPU"),
    ];
    for (options, part) in wrong {
        let line = options.check().unwrap_err().to_string();
        assert!(line.contains(part) && !line.contains('\n'), "{line}");
    }
    let long = Options { frame: 15_054, segment: Some(1514), ..e1000.clone() };
    let whole = Options { frame: 65_549, segment: Some(1514), ..Options::default() };
    let eight = Options { nics: 8, ..Options::default() };
    for options in [Options::default(), e1000, base, coalesced, long, whole, eight] {
        options.check().unwrap();
    }
}

#[test]
fn a_packet_becomes_as_many_frames_as_its_payload_fills() {
    let of =
        |frame, segment, headers| Options { frame, segment, ..Options::default() }.frames_a_packet(headers);
    assert_eq!(of(1514, None, 54), 1);
    assert_eq!([of(15_054, Some(1514), 54), of(14_654, Some(1514), 54)], [11, 10]);
    assert_eq!([of(15_042, Some(1514), 42), of(65_549, Some(1514), 42)], [11, 45]);
}

#[test]
fn a_case_shows_what_differs_from_the_plain_device() {
    let of = |nic, mode, itr, combine| Options { nic, mode, itr, combine, ..Options::default() }.device();
    use NicModel::{E1000, VirtioNet};
    assert_eq!(of(VirtioNet, TransmitMode::Csb, Itr::Every(0), 0), "kvm/virtio-net");
    assert_eq!(of(VirtioNet, TransmitMode::Csb, Itr::Every(100), 0), "kvm/virtio-net+itr100");
    assert_eq!(of(E1000, TransmitMode::Csb, Itr::Every(0), 0), "kvm/e1000-csb");
    assert_eq!(of(E1000, TransmitMode::Base, Itr::Every(100), 0), "kvm/e1000-base+itr100");
    let combining = of(E1000, TransmitMode::SendCombining, Itr::Adaptive, 32);
    assert_eq!(combining, "kvm/e1000-send-combining+itradaptive+combine32");
    let (nic, mode) = (E1000, TransmitMode::SendCombining);
    let above = Options { nic, mode, combine_above: 5000, ..Options::default() };
    assert_eq!(above.device(), "kvm/e1000-send-combining+above5000");
    let delayed = Options { sent_interrupts: Some(TxInterruptPolicy::Delayed), ..Options::default() };
    assert_eq!(delayed.device(), "kvm/virtio-net+sent-delayed");
}
