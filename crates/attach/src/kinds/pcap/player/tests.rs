use std::io::Write;
use std::time::Instant;

use super::*;

/// Creates a file of frames with these lengths, a tenth of a second apart.
fn file(lengths: &[usize]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let mut octets = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
    octets.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 1, 0, 0, 0]);
    for (n, len) in lengths.iter().enumerate() {
        let (at, len) = (n as u32 * 100_000, *len as u32);
        for word in [100 + at / 1_000_000, at % 1_000_000, len, len] {
            octets.extend(word.to_le_bytes());
        }
        octets.resize(octets.len() + len as usize, n as u8);
    }
    file.write_all(&octets).expect("written");
    file
}

fn player(file: &tempfile::NamedTempFile, recorded: bool) -> Player {
    let opened = open(file.path()).expect("a good file");
    Player::start(Clock::default(), ("edge.wan", opened), recorded, Confinement::Off).expect("it starts")
}

/// Returns the lengths of the replayed frames, and the message at the end.
fn listen(player: &Player) -> (Vec<usize>, String) {
    let (mut source, _) = player.lend().expect("it is at home");
    let (mut came, since) = (Vec::new(), Instant::now());
    loop {
        let told = player.news();
        let mut take = |frames: &[Frame<'_>]| came.extend(frames.iter().map(Frame::len));
        while source.drain(64, &mut take) > 0 {}
        if let Some(told) = told {
            return (came, told);
        }
        assert!(since.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn frames_come_in_order_and_what_cannot_be_played_is_counted() {
    let file = file(&[60, 1514, 13, 9239, 9238, 2049, 14]);
    let player = player(&file, false);
    let (came, told) = listen(&player);
    assert_eq!(came, [60, 1514, 9238, 2049, 14]);
    assert!(told.starts_with("its replay is over: 5 of 7 frames in "), "{told}");
    assert_eq!(player.shared.counters.skipped_length.get(), 2);
    assert_eq!(player.shared.counters.frames.get(), 5);
}

#[test]
fn more_frames_than_fit_into_the_queue_wait_in_the_file() {
    let file = file(&[60; 5000]);
    assert_eq!(listen(&player(&file, false)).0.len(), 5000);
}

#[test]
fn jumbo_frames_wait_in_the_file_too() {
    // The queue has room for 64 of them at a time.
    let file = file(&[9014; 200]);
    assert_eq!(listen(&player(&file, false)).0, [9014; 200]);
}

#[test]
fn the_recorded_pace_is_kept() {
    let (file, (clock, hand)) = (file(&[60; 4]), Clock::by_hand());
    let opened = open(file.path()).expect("a good file");
    let player = Player::start(clock, ("edge.wan", opened), true, Confinement::Off).expect("it starts");
    let (_source, counters) = player.lend().expect("it is at home");
    for frames in 1..=4 {
        let since = Instant::now();
        while counters.frames.get() < frames {
            assert!(since.elapsed() < Duration::from_secs(60), "{frames} frames are due");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Frames are 0.1 s apart; slightly less has passed.
        hand.advance(Duration::from_millis(99));
        assert_eq!(counters.frames.get(), frames);
        hand.advance(Duration::from_millis(1));
    }
}

#[test]
fn a_player_that_is_dropped_ends_in_the_middle() {
    let file = file(&[60; 5000]);
    let player = player(&file, true);
    let thread = player._thread.tid();
    drop(player);
    let since = Instant::now();
    while Path::new(&format!("/proc/self/task/{thread}")).exists() {
        assert!(since.elapsed() < Duration::from_secs(60), "it still plays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_no_capture_is_refused_in_one_line() {
    let said = |path: &Path| format!("{:#}", open(path).expect_err("no capture"));
    let mut text = tempfile::NamedTempFile::new().expect("a file");
    text.write_all(b"what is this? certainly not frames").expect("written");
    let path = text.path().display().to_string();
    assert_eq!(said(text.path()), format!("cannot replay {path}: it is no pcap file"));
    assert!(said(Path::new("/dev/null")).contains("no regular file"));
    assert!(said(Path::new("/tmp")).contains("cannot replay /tmp: "));
    assert!(said(Path::new("/there/is/none")).contains("No such file"));
}

#[test]
fn a_file_that_is_damaged_further_on_ends_with_a_line() {
    let file = file(&[60; 3]);
    let len = file.as_file().metadata().expect("there").len();
    file.as_file().set_len(len - 1).expect("cut");
    let (came, told) = listen(&player(&file, false));
    assert_eq!(came.len(), 2);
    assert_eq!(told, "its replay has ended after 2 frames: it ends in the middle of frame 3");
}
