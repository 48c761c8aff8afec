use nic_port::irq::Pin as _;

use super::*;

fn ram() -> Arc<GuestRam> {
    Arc::new(GuestRam::new("irq-tests", 12 << 20).expect("memory"))
}

fn line() -> IrqLine {
    let event = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).expect("an event descriptor");
    IrqLine::new(Wire::Event { event, gsi: FIRST_GSI }, ram())
}

/// Returns the number of interrupts sent since the last call.
fn sent(line: &IrqLine) -> u64 {
    let Wire::Event { event, .. } = &line.wire else { panic!("a line with an event") };
    event.read().unwrap_or(0)
}

#[test]
fn a_new_line_is_masked_and_keeps_one_interrupt() {
    let line = line();
    line.signal();
    line.signal();
    assert_eq!(sent(&line), 0);
    line.unmask();
    assert_eq!(sent(&line), 1, "sent when unmasked, once");
    line.unmask();
    assert_eq!(sent(&line), 0, "and not again");
}

#[test]
fn an_unmasked_line_sends_each_time() {
    let line = line();
    line.unmask();
    (0..3).for_each(|_| line.signal());
    assert_eq!(sent(&line), 3);
    line.mask();
    line.signal();
    assert_eq!(sent(&line), 0);
}

#[test]
fn a_line_that_was_lent_is_pulled_by_an_event_that_nobody_else_has() {
    let lent = new_event().expect("an event descriptor");
    // As its owner may leave it, so that a further write would block.
    lent.write(u64::MAX - 1).expect("it has room");
    let line = IrqLine { lent: ExternalSignal::Event(lent.try_clone().expect("a copy")), ..line() };
    line.signal();
    line.unmask();
    line.signal();
    assert_eq!(sent(&line), 2);
    assert_eq!(line.event().expect("it was lent").read().expect("it is full"), u64::MAX - 1);
}

#[test]
fn the_mailbox_moves_with_each_interrupt_that_is_sent() {
    let mut word = AtomicU32::new(u32::MAX);
    let line = line();
    line.mailbox.store(&raw mut word, Ordering::Release);
    line.signal();
    assert_eq!(word.load(Ordering::Acquire), u32::MAX, "nothing was sent yet");
    line.unmask();
    line.signal();
    assert_eq!(word.load(Ordering::Acquire), 1, "two were sent, and the word wraps");
}

#[test]
fn no_interrupt_is_lost_between_mask_and_unmask() {
    let line = line();
    let (turns, done) = (20_000, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                line.mask();
                line.unmask();
            }
        });
        for turn in 0..turns {
            line.signal();
            // Masked or not, it is delivered with this unmasking at the latest.
            let start = std::time::Instant::now();
            while sent(&line) == 0 {
                let waited = start.elapsed();
                assert!(waited.as_secs() < 60, "the interrupt of turn {turn} was lost");
                std::hint::spin_loop();
            }
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn a_route_carries_the_message() {
    let message = Message { address: 0x1_fee0_3000, data: 0x40 };
    let (messages, inputs) = (BTreeMap::from([(30, message)]), BTreeSet::from([17]));
    let routes = Routes { messages, inputs, ..Routes::default() };
    let table = routes.table().expect("two routes");
    let [pin, entry] = table.as_slice() else { panic!("two entries") };
    assert_eq!((pin.gsi, pin.type_), (17, KVM_IRQ_ROUTING_IRQCHIP));
    // SAFETY: the type says which field of the union was written.
    let chip = unsafe { pin.u.irqchip };
    assert_eq!((chip.irqchip, chip.pin), (KVM_IRQCHIP_IOAPIC, 17));
    assert_eq!((entry.gsi, entry.type_), (30, KVM_IRQ_ROUTING_MSI));
    // SAFETY: the type says which field of the union was written.
    let msi = unsafe { entry.u.msi };
    assert_eq!((msi.address_lo, msi.address_hi, msi.data), (0xfee0_3000, 1, 0x40));
}

#[test]
fn a_line_without_kvm_moves_the_mailbox_of_the_vcpu_that_its_message_names() {
    let router = IrqRouter::new(None, ram());
    let line = router.line().expect("a line");
    let mailbox = |vcpu: usize| router.ram.shared().mailbox[vcpu].0.load(Ordering::Acquire);
    line.signal();
    assert_eq!(mailbox(3), 0, "masked");
    router.route(&line, Some(Message { address: 0xfee0_3000, data: 0x40 })).expect("a route");
    line.signal();
    assert_eq!((mailbox(3), mailbox(0)), (2, 0), "what waited, and one more");
    // A driver may write anything into its message: then no mailbox is incremented.
    router.route(&line, Some(Message { address: 0xfeef_f000, data: 0x40 })).expect("a route");
    line.signal();
    assert!((0..bootinfo::MAX_VCPUS).map(mailbox).sum::<u32>() == 2);
}

#[test]
fn several_lines_get_their_messages_at_once() {
    let kvm = match crate::open_kvm() {
        Ok(kvm) => kvm,
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    let vm = Arc::new(kvm.create_vm().expect("a virtual machine"));
    vm.create_irq_chip().expect("an interrupt controller");
    let router = IrqRouter::new(Some(vm), ram());
    let lines = [(); 3].map(|()| router.line().expect("a line"));
    let message = |vcpu: u64| Message { address: 0xfee0_0000 | vcpu << 12, data: 0x40 };
    let routed =
        |first: u64| -> Vec<_> { lines.iter().map(|line| &**line).zip((first..).map(message)).collect() };
    lines[1].signal();
    router.route_all(&routed(0)).expect("routes");
    let mailbox = |vcpu: usize| router.ram.shared().mailbox[vcpu].0.load(Ordering::Acquire);
    assert_eq!([0, 1, 2].map(mailbox), [0, 1, 0], "what waited is sent");
    let times_set = || router.routes.lock().expect("nobody failed").times_set.load(Ordering::Relaxed);
    assert_eq!(times_set(), 1);
    // Other messages: those of before are gone.
    router.route_all(&routed(1)).expect("routes");
    assert_eq!(times_set(), 2);
    router.route_all(&routed(1)).expect("the same routes");
    assert_eq!(times_set(), 2);
    lines.iter().for_each(|line| line.signal());
    assert_eq!([0, 1, 2, 3].map(mailbox), [0, 2, 1, 1]);
    let routes = router.routes.lock().expect("nobody failed");
    let set: Vec<_> = routes.messages.values().copied().collect();
    assert_eq!(set, [1, 2, 3].map(message));
}

#[test]
fn a_message_that_kvm_refuses_is_set_by_the_next_attempt() {
    let kvm = match crate::open_kvm() {
        Ok(kvm) => kvm,
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    let vm = Arc::new(kvm.create_vm().expect("a virtual machine"));
    let router = IrqRouter::new(Some(vm.clone()), ram());
    let line = line();
    let routed = || router.route(&line, Some(Message { address: 0xfee0_0000, data: 0x40 }));
    // There is no interrupt controller yet.
    assert!(routed().is_err());
    assert!(router.routes.lock().expect("nobody failed").messages.is_empty());
    line.signal();
    assert_eq!(sent(&line), 0, "it is still masked");
    vm.create_irq_chip().expect("an interrupt controller");
    routed().expect("a route");
    assert_eq!(router.routes.lock().expect("nobody failed").messages.len(), 1);
    assert_eq!(sent(&line), 1);
}

#[test]
fn a_pin_without_kvm_moves_the_mailbox_when_it_rises() {
    let router = IrqRouter::new(None, ram());
    let pin = router.pin(1, 3).expect("a pin");
    let mailbox = |vcpu: usize| router.ram.shared().mailbox[vcpu].0.load(Ordering::Acquire);
    pin.set(true);
    assert_eq!((mailbox(3), mailbox(0)), (1, 0));
    pin.set(false);
    assert_eq!(mailbox(3), 1, "a line that falls tells nobody");
    pin.set(true);
    assert_eq!(mailbox(3), 2);
}

#[test]
fn there_are_pins_for_as_many_nics_as_a_router_has() {
    let router = IrqRouter::new(None, ram());
    for nic in 0..bootinfo::MAX_NICS {
        assert!(router.pin(nic, 0).is_ok());
    }
    assert!(router.pin(bootinfo::MAX_NICS, 0).is_err());
    assert!(router.pin(0, bootinfo::MAX_VCPUS).is_err());
}

#[test]
fn a_linux_guest_has_pins_for_its_first_nics_only() {
    let router = IrqRouter::of_pc(None, ram());
    assert!(router.pin(map::PINS - 1, 0).is_ok());
    let error = router.pin(map::PINS, 0).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(error, "a Linux guest has interrupt pins for its first 8 NICs, not for number 8");
}

#[test]
fn the_message_of_a_pin_leads_to_the_handler_of_its_nic() {
    let last = pin::message(bootinfo::MAX_NICS - 1, 3);
    assert_eq!((last.address, last.data), (0xfee0_3000, u32::from(map::FIRST_PIN_VECTOR) + 31));
}
