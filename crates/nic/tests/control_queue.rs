//! The control queue, with the driver's end of a real ring.

use nic::virtio_net::{Ack, COMMAND_LEN_MAX, ControlQueue};
use ring::Region;
use ring::split::{Broken, DeviceQueue, Driver, DriverQueue, Features, Layout, Segment, Slot};

const SIZE: u16 = 8;
const RING: u64 = 0x1000;
const COMMANDS: u64 = 0x4000;
const LEN: usize = 0x8000;

/// Guest memory from address 0.
struct Memory {
    octets: Box<[u64]>,
}

impl Memory {
    fn new() -> Self {
        Self { octets: vec![0; LEN / 8].into_boxed_slice() }
    }

    fn region(&mut self) -> Region {
        // SAFETY: the octets live as long as the memory, which each test keeps to its end, and are accessed only
        // through the region.
        unsafe { Region::new(self.octets.as_mut_ptr().cast(), 0, LEN as u64) }
    }
}

fn put(region: &Region, address: u64, octets: &[u8]) {
    let place = region.bytes(address, octets.len() as u32).unwrap();
    assert_eq!(place.copy_from_slice(octets), octets.len());
}

fn octet(region: &Region, address: u64) -> u8 {
    let [octet] = region.bytes(address, 1).unwrap().read(0).unwrap();
    octet
}

fn readable(address: u64, len: u32) -> Segment {
    Segment { address, len, writable: false }
}

fn writable(address: u64, len: u32) -> Segment {
    Segment { address, len, writable: true }
}

/// Pushes `segments` as one command and serves the queue once; returns the executed commands, the length in the used
/// entry, and the outcome.
fn execute(memory: &mut Memory, segments: &[Segment]) -> (Vec<Vec<u8>>, u32, Result<bool, Broken>) {
    let region = memory.region();
    let layout = Layout::contiguous(SIZE, RING);
    let mut slots = [const { Slot::<u8>::EMPTY }; SIZE as usize];
    let mut driver = Driver::new(region, &layout, Features::default(), &mut slots).unwrap();
    let mut control = ControlQueue::new(DeviceQueue::new(region, &layout, Features::default()).unwrap());
    assert!(driver.push_chain(7, segments));
    assert!(driver.publish(), "the device wants a kick");
    let mut executed = vec![];
    control.kicked();
    let outcome = control.serve(|command| {
        executed.push(command.to_vec());
        Ack::Error
    });
    let mut written = u32::MAX;
    if outcome.is_ok() {
        assert_eq!(driver.used_ready(1), 1);
        driver.pop(1, |_, len| written = len).unwrap();
    }
    (executed, written, outcome)
}

#[test]
fn a_command_in_any_number_of_buffers_is_executed_and_answered() {
    let octets = [4, 0, 2, 0];
    let answer = COMMANDS + 0x100;
    for cuts in [&[4][..], &[2, 2], &[1, 1, 2], &[1, 1, 1, 1]] {
        let mut memory = Memory::new();
        let region = memory.region();
        put(&region, COMMANDS, &octets);
        put(&region, answer, &[0xee, 0xee]);
        let mut at = COMMANDS;
        let mut segments = vec![];
        for &len in cuts {
            segments.push(readable(at, len));
            at += u64::from(len);
        }
        segments.push(writable(answer, 2));
        let (executed, written, outcome) = execute(&mut memory, &segments);
        assert_eq!((executed, written, outcome), (vec![octets.to_vec()], 1, Ok(true)), "{cuts:?}");
        assert_eq!((octet(&region, answer), octet(&region, answer + 1)), (Ack::Error as u8, 0xee));
    }
}

#[test]
fn a_long_command_is_not_taken_for_a_short_one() {
    let mut memory = Memory::new();
    let segments = [readable(COMMANDS, 0x100), writable(COMMANDS + 0x100, 1)];
    let (executed, written, _) = execute(&mut memory, &segments);
    assert_eq!((executed[0].len(), written), (COMMAND_LEN_MAX + 1, 1));
}

#[test]
fn a_command_without_room_for_an_answer_is_returned_unexecuted() {
    let mut memory = Memory::new();
    assert_eq!(execute(&mut memory, &[readable(COMMANDS, 4)]), (vec![], 0, Ok(true)));
}

#[test]
fn an_answer_without_a_command_is_an_empty_command() {
    let mut memory = Memory::new();
    assert_eq!(execute(&mut memory, &[writable(COMMANDS, 1)]), (vec![vec![]], 1, Ok(true)));
}

#[test]
fn a_broken_ring_is_told() {
    let mut memory = Memory::new();
    let (executed, _, outcome) = execute(&mut memory, &[readable(LEN as u64, 4), writable(COMMANDS, 1)]);
    assert_eq!((executed, outcome), (vec![], Err(Broken::Address)));
}

/// A driver that adds a command for each one executed does not occupy the thread forever.
#[test]
fn one_kick_buys_a_bounded_number_of_commands() {
    let mut memory = Memory::new();
    let region = memory.region();
    let layout = Layout::contiguous(SIZE, RING);
    let mut slots = [const { Slot::<u8>::EMPTY }; SIZE as usize];
    let mut driver = Driver::new(region, &layout, Features::default(), &mut slots).unwrap();
    let mut control = ControlQueue::new(DeviceQueue::new(region, &layout, Features::default()).unwrap());
    let command = [readable(COMMANDS, 4), writable(COMMANDS + 0x100, 1)];
    let mut executed = 0;
    driver.push_chain(0, &command);
    driver.publish();
    control.kicked();
    while control.has_more() {
        control
            .serve(|_| {
                executed += 1;
                driver.pop(usize::from(SIZE), |_, _| ()).unwrap();
                driver.push_chain(0, &command);
                driver.publish();
                Ack::Ok
            })
            .unwrap();
    }
    assert_eq!(executed, 2 * u32::from(SIZE));
    // The next kick executes the remaining command.
    control.kicked();
    control.serve(|_| Ack::Ok).unwrap();
    assert_eq!(driver.used_ready(usize::from(SIZE)), 2, "the last of the first kick and the one left");
}

/// A thread that waits for the device gets it between two bursts.
#[test]
fn commands_are_executed_burst_by_burst() {
    const MANY: u16 = 256;
    let mut memory = Memory::new();
    let region = memory.region();
    let layout = Layout::contiguous(MANY, RING);
    let mut slots = [const { Slot::<u8>::EMPTY }; MANY as usize];
    let mut driver = Driver::new(region, &layout, Features::default(), &mut slots).unwrap();
    let mut control = ControlQueue::new(DeviceQueue::new(region, &layout, Features::default()).unwrap());
    let command = [readable(COMMANDS, 4), writable(COMMANDS + 0x100, 1)];
    let waiting = (0..).take_while(|_| driver.push_chain(0, &command)).count();
    assert_eq!(waiting, 128);
    driver.publish();
    assert!(!control.has_more(), "nobody has kicked");
    control.kicked();
    let mut bursts = vec![];
    while control.has_more() {
        let mut executed = 0;
        control
            .serve(|_| {
                executed += 1;
                Ack::Ok
            })
            .unwrap();
        bursts.push(executed);
    }
    assert_eq!(bursts, [64, 64, 0]);
    assert_eq!(driver.used_ready(usize::from(MANY)), 128);
}
