use std::io::Write;
use std::os::unix::net::UnixStream;

use super::*;

fn read(lines: &mut Lines<UnixStream>) -> Vec<String> {
    let mut found = Vec::new();
    lines.read(&mut |line| found.push(line.to_owned()));
    found
}

#[test]
fn lines_come_as_they_are_whole_and_the_last_at_the_end() {
    let (mut writer, reader) = UnixStream::pair().expect("sockets");
    let mut lines = Lines::new(reader);
    assert_eq!(read(&mut lines), [""; 0]);
    writer.write_all(b"one\ntw").expect("sent");
    assert_eq!(read(&mut lines), ["one"]);
    writer.write_all(b"o\nthr\xffee").expect("sent");
    assert_eq!(read(&mut lines), ["two"]);
    assert!(lines.pipe().is_some());
    drop(writer);
    assert_eq!(read(&mut lines), ["thr\u{fffd}ee"]);
    assert!(lines.pipe().is_none() && read(&mut lines).is_empty());
}

#[test]
fn a_line_without_end_costs_bounded_memory() {
    let (mut writer, reader) = UnixStream::pair().expect("sockets");
    let mut lines = Lines::new(reader);
    for _ in 0..20 {
        writer.write_all(&[b'x'; 4096]).expect("sent");
        assert!(read(&mut lines).is_empty());
    }
    writer.write_all(b"\nnext\n").expect("sent");
    let found = read(&mut lines);
    assert_eq!((found[0].len(), &found[1][..]), (LONGEST, "next"));
}
