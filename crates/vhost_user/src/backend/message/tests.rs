use std::io::Write;

use super::*;

fn octets(request: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let words = [request, flags, body.len() as u32];
    words.iter().flat_map(|word| word.to_le_bytes()).chain(body.iter().copied()).collect()
}

fn pair() -> (UnixStream, MessageStream) {
    let (peer, ours) = UnixStream::pair().expect("a pair");
    (peer, MessageStream::new(ours))
}

fn send(peer: &UnixStream, octets: &[u8], descriptors: &[&OwnedFd]) {
    fd_passing::send(peer, octets, descriptors, SendFlags::empty()).expect("it listens");
}

fn fault(octets: &[u8]) -> String {
    let (mut peer, mut line) = pair();
    peer.write_all(octets).expect("it listens");
    line.read_message().expect_err("it is wrong").to_string()
}

#[test]
fn messages_are_told_apart_whatever_the_pieces_they_come_in() {
    let (mut peer, mut line) = pair();
    let (pipe, _) = rustix::pipe::pipe().expect("a pipe");
    let (first, second) = (octets(1, 1, &[]), octets(12, 9, &7u64.to_le_bytes()));
    for octet in &first {
        assert!(matches!(line.read_message(), Ok(ReadResult::Nothing)));
        peer.write_all(&[*octet]).expect("it listens");
    }
    send(&peer, &second, &[&pipe]);
    let Ok(ReadResult::Message(message)) = line.read_message() else { panic!("it is complete") };
    assert_eq!((message.request, message.need_reply), (FrontendReq::GET_FEATURES, false));
    assert!(message.body.is_empty() && message.descriptors.is_empty(), "they belong to the next one");
    let Ok(ReadResult::Message(mut message)) = line.read_message() else { panic!("it is complete") };
    assert_eq!((message.request, message.need_reply), (FrontendReq::SET_VRING_KICK, true));
    assert_eq!(message.body_as::<vhost::vhost_user::message::VhostUserU64>().expect("8 octets").value, 7);
    assert!(message.one_descriptor().is_some());
    drop(peer);
    assert!(matches!(line.read_message(), Ok(ReadResult::End)));
}

#[test]
fn what_is_no_message_is_told_in_one_line() {
    assert!(fault(&octets(1, 2, &[])).contains("version 2"));
    assert!(fault(&octets(999, 1, &[])).contains("request number 999"));
    assert!(fault(&octets(1, 5, &[])).contains("nothing was asked"));
    let mut long = octets(5, 1, &[]);
    long[8..].copy_from_slice(&4097u32.to_le_bytes());
    assert!(fault(&long).contains("4097 octets"));
    let (peer, mut line) = pair();
    (&peer).write_all(&octets(1, 1, &[])[..5]).expect("it listens");
    drop(peer);
    assert!(line.read_message().expect_err("it is torn").to_string().contains("in the middle"));
}

#[test]
fn descriptors_beyond_measure_are_refused_and_closed() {
    let (peer, mut line) = pair();
    let (pipe, far) = rustix::pipe::pipe().expect("a pipe");
    send(&peer, &octets(5, 1, &[]), &[&far; 40]);
    assert!(line.read_message().is_err());
    drop((far, line, peer));
    // The pipe has no writer any more: all descriptors are closed.
    assert_eq!(rustix::io::read(&pipe, &mut [0; 1]), Ok(0));
}

#[test]
fn who_reads_no_answers_is_not_waited_for() {
    let (_peer, line) = pair();
    let long = vec![0; 4096];
    let refusal = (0..1000).find_map(|_| line.send_reply(&long).err()).expect("its socket is full");
    assert!(refusal.to_string().contains("does not read"));
}

#[test]
fn a_connection_that_was_closed_before_its_answer_has_ended_without_a_fault() {
    for is_closed in [true, false] {
        let (peer, mut line) = pair();
        (&peer).write_all(&octets(1, 1, &[])).expect("it listens");
        // The end of a process closes the connection; a process that has waited for too long shuts it down.
        let kept = (!is_closed).then(|| peer.try_clone().expect("a copy"));
        peer.shutdown(std::net::Shutdown::Both).expect("it is connected");
        drop(peer);
        let Ok(ReadResult::Message(message)) = line.read_message() else { panic!("it was sent before") };
        assert_eq!(message.request, FrontendReq::GET_FEATURES);
        assert!(matches!(line.send_reply(&answer(message.request, &[0; 8])), Ok(false)));
        assert!(matches!(line.read_message(), Ok(ReadResult::End)));
        drop(kept);
    }
}
