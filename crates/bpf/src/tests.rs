mod types;

use std::io;
use std::os::fd::AsFd;

use super::map::of_ranges;
use super::*;

/// Result of a kernel call, or `None` if this user lacks the privilege.
fn granted<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(granted) => Some(granted),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            println!("SKIPPED: needs the right to use bpf(2)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn cpus_that_there_may_be() {
    for (text, cpus) in [("0\n", Some(1)), ("0-3\n", Some(4)), ("0-1,4-7", Some(8)), ("", None), ("x", None)]
    {
        assert_eq!(of_ranges(text), cpus, "{text:?}");
    }
}

#[test]
fn what_is_put_is_there_until_it_is_removed() {
    let Some(map) = granted(Map::new(Kind::Hash, 16, 2)) else { return };
    let mut words = [0; 2];
    assert_eq!(map.get(7, &mut words).map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    map.put(7, &[1; 16]).unwrap();
    map.get(7, &mut words).unwrap();
    assert_eq!(words, [0x0101_0101_0101_0101; 2]);
    map.put(8, &[2; 16]).unwrap();
    assert!(map.put(9, &[3; 16]).is_err(), "it is full");
    map.remove(7).unwrap();
    assert!(map.get(7, &mut words).is_err() && map.remove(7).is_err());
}

#[test]
fn a_place_of_another_length_is_refused() {
    let Some(map) = granted(Map::new(Kind::Hash, 16, 2)) else { return };
    let refused = |result: io::Result<()>| result.map_err(|error| error.kind());
    map.put(7, &[1; 16]).unwrap();
    for words in [0, 1, 3] {
        assert_eq!(refused(map.get(7, &mut vec![0; words])), Err(io::ErrorKind::InvalidInput));
        assert_eq!(refused(map.put(7, &vec![0; 8 * words])), Err(io::ErrorKind::InvalidInput));
    }
    let each = granted(Map::new(Kind::ArrayOfEachCpu, 12, 1)).expect("the same right");
    assert_eq!(each.len_of_value() % 16, 0, "12 octets are two words for each CPU");
    let mut words = vec![1; each.len_of_value() / 8];
    each.get(0, &mut words).unwrap();
    assert!(words.iter().all(|word| *word == 0), "{words:?}");
    assert!(each.get(0, &mut words[1..]).is_err());
}

#[test]
fn a_program_answers_and_a_wrong_one_is_refused() {
    const MOVE: u8 = 0xb7;
    const EXIT: u8 = 0x95;
    let code = [instruction(MOVE, (0, 0), 0, 42), instruction(EXIT, (0, 0), 0, 0)];
    assert_eq!(code, [0x0000_002a_0000_00b7, 0x95]);
    assert_eq!(instruction(0x7b, (10, 8), -8, -1), 0xffff_ffff_fff8_8a7b);
    let Some(program) = granted(load(Purpose::SocketFilter, &code)) else { return };
    assert_eq!(run(program.as_fd(), &[0; 64]).unwrap(), 42);
    assert!(load(Purpose::SocketFilter, &code[..1]).is_err(), "it has no end");
    assert!(attach_to_tracepoint("softirq_entry", program.as_fd()).is_err(), "it is for something else");
    assert!(attach_to_tracepoint("a\0b", program.as_fd()).is_err());
}

#[test]
fn keys_of_64_bits_differ_in_each_of_them() {
    let Some(map) = granted(Map::with_u64_keys(Kind::Hash, 8, 4)) else { return };
    let keys = [0, 1, 1 << 32, 1 << 63];
    for (n, key) in keys.into_iter().enumerate() {
        map.put(key, &n.to_ne_bytes()).unwrap();
    }
    for (n, key) in keys.into_iter().enumerate() {
        let mut words = [9];
        map.get(key, &mut words).unwrap();
        assert_eq!(words, [n as u64]);
    }
    map.remove(1 << 32).unwrap();
    assert!(map.get(1 << 32, &mut [0]).is_err() && map.get(0, &mut [0]).is_ok());
    assert!(Map::with_u64_keys(Kind::Array, 8, 4).is_err(), "numbers have 32 bits");
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Again,
    Done,
    Nowhere,
}

/// A program that sums the numbers from `from` down to 1 in a loop.
fn sum(from: i32) -> Vec<u64> {
    let mut code = Assembler::default();
    code.mov_const(R0, 0);
    code.mov_const(R6, from);
    code.label(Place::Again);
    code.jump_if(Compare::Equal, R6, 0, Place::Done);
    code.alu_reg(Operation::Add, R0, R6);
    code.alu_const(Operation::Subtract, R6, 1);
    code.jump(Place::Again);
    code.label(Place::Done);
    code.exit();
    code.finish()
}

#[test]
fn jumps_lead_both_ways() {
    let code = sum(4);
    assert_eq!(code[2], instruction(0x15, (6, 0), 3, 0));
    assert_eq!(code[5], instruction(0x05, (0, 0), -4, 0));
    let Some(program) = granted(load(Purpose::SocketFilter, &code)) else { return };
    assert_eq!(run(program.as_fd(), &[0; 64]).unwrap(), 10);
}

#[test]
fn a_jump_to_nowhere_is_refused() {
    let mut code = Assembler::default();
    code.mov_const(R0, 0);
    code.jump(Place::Nowhere);
    code.exit();
    let code = code.finish();
    assert_eq!(code[1], instruction(0x05, (0, 0), -1, 0), "to itself");
    let refused = load(Purpose::SocketFilter, &code).expect_err("it never ends");
    assert!(matches!(refused.raw_os_error(), Some(libc::EINVAL | libc::EPERM)), "{refused}");
}

#[test]
fn what_is_shared_is_added_and_exchanged() {
    let Some(map) = granted(Map::new(Kind::Array, 16, 1)) else { return };
    let mut code = Assembler::<Place>::default();
    code.store_constant(Size::Word, R10, -4, 0);
    code.map(R1, map.as_fd());
    code.address(R2, R10, -4);
    code.call(1);
    code.jump_if(Compare::Equal, R0, 0, Place::Done);
    code.mov(R6, R0);
    code.mov_const(R1, 5);
    code.atomic_add(R6, 0, R1);
    code.mov_const(R1, 2);
    code.fetch_add(R6, 0, R1);
    // R1 = 5 and R0 = 7, the present value: 7 + 5 replaces it.
    code.load(Size::Double, R0, R6, 0);
    code.alu_reg(Operation::Add, R1, R0);
    code.compare_exchange(R6, 0, R1);
    code.store(Size::Double, R6, 8, R0);
    code.label(Place::Done);
    code.mov_const(R0, 0);
    code.exit();
    let program = load(Purpose::SocketFilter, &code.finish()).unwrap();
    run(program.as_fd(), &[0; 64]).unwrap();
    let mut words = [0; 2];
    map.get(0, &mut words).unwrap();
    assert_eq!(words, [12, 7]);
}

#[test]
fn only_what_decides_on_packets_can_be_attached_to_their_way() {
    let code = [instruction(0xb7, (0, 0), 0, -1), instruction(0x95, (0, 0), 0, 0)];
    let Some(filter) = granted(load(Purpose::SocketFilter, &code)) else { return };
    assert!(attach_to_tcx(filter.as_fd(), 1, Direction::Ingress).is_err(), "it is for something else");
    let program = load(Purpose::TrafficControl, &code).unwrap();
    assert_eq!(run(program.as_fd(), &[0; 64]).unwrap(), u32::MAX, "the next one decides");
    assert!(
        attach_to_tcx(program.as_fd(), u32::MAX, Direction::Egress).is_err(),
        "there is no such interface"
    );
}

#[test]
fn a_socket_receives_what_its_filter_passes() {
    // Passes datagrams whose first octet is 7. Register 6 is the context of loads from the datagram.
    let code = [
        instruction(0xbf, (6, 1), 0, 0),
        instruction(0x30, (0, 0), 0, 0),
        instruction(0x15, (0, 0), 2, 7),
        instruction(0xb7, (0, 0), 0, 0),
        instruction(0x95, (0, 0), 0, 0),
        instruction(0xb7, (0, 0), 0, -1),
        instruction(0x95, (0, 0), 0, 0),
    ];
    let Some(program) = granted(load(Purpose::SocketFilter, &code)) else { return };
    let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().expect("sockets");
    attach_to_socket(program.as_fd(), ours.as_fd()).expect("attached");
    drop(program);
    let _ = theirs.send(&[6]);
    theirs.send(&[7, 1]).expect("sent");
    let mut octets = [0; 4];
    assert_eq!((ours.recv(&mut octets).expect("received"), octets[0]), (2, 7));
    assert!(attach_to_socket(ours.as_fd(), ours.as_fd()).is_err(), "it is no program");
}
