use std::io::Write;

use rustix::io::Errno;

use super::*;

/// A data plane's end of the pipe, and ours.
struct Pair {
    stderr: Stderr,
    its: std::fs::File,
    now: Instant,
}

impl Pair {
    fn new() -> Self {
        let now = Instant::now();
        let (stderr, its) = Stderr::pair(now).expect("a pipe");
        Self { stderr, its: its.into(), now }
    }

    fn says(&mut self, text: &str) {
        self.its.write_all(text.as_bytes()).expect("there is room");
    }

    /// Writes the text until there is no room. Returns how often.
    fn floods(&mut self, text: &str) -> u64 {
        let mut times = 0;
        loop {
            match rustix::io::write(&self.its, text.as_bytes()) {
                Ok(written) => assert_eq!(written, text.len(), "a short text is written as a whole"),
                Err(error) => {
                    assert_eq!(error, Errno::AGAIN, "nobody waits");
                    return times;
                }
            }
            times += 1;
        }
    }

    fn hear(&mut self) -> StderrOutput {
        self.stderr.hear(self.now)
    }

    fn after(&mut self, while_: Duration) -> StderrOutput {
        self.now += while_;
        self.hear()
    }
}

fn lines<const N: usize>(lines: [&str; N]) -> StderrOutput {
    StderrOutput { lines: lines.map(str::to_owned).into(), ..StderrOutput::default() }
}

#[test]
fn lines_are_passed_on_when_they_are_whole() {
    let mut pair = Pair::new();
    assert_eq!(pair.hear(), StderrOutput::default());
    pair.says("one\ntwo\nthr");
    assert_eq!(pair.hear(), lines(["one", "two"]));
    pair.says("ee\n\n");
    assert_eq!(pair.hear(), lines(["three", ""]));
    assert!(pair.stderr.watched().is_some() && pair.stderr.due().is_none());
}

#[test]
fn what_a_line_holds_is_fit_for_a_terminal() {
    let mut pair = Pair::new();
    pair.says("\u{1b}[2J a\rb\t\u{7}c\n");
    pair.its.write_all(b"\xff\xfe\n").expect("there is room");
    pair.says(&("x".repeat(10_000) + "\nshort\n"));
    let said = pair.hear();
    assert_eq!(said.lines[..2], [" [2J a b  c", "\u{fffd}\u{fffd}"]);
    assert_eq!(said.lines[2], "x".repeat(1024) + "…");
    assert_eq!(said.lines[3..], ["short"]);
}

#[test]
fn lines_that_come_too_fast_are_counted_and_told_of_a_second_later() {
    let mut pair = Pair::new();
    pair.says(&"line\n".repeat(MOST_LINES + 7));
    let said = pair.hear();
    assert_eq!((said.lines.len(), said.lost), (MOST_LINES, 0));
    pair.says("more\n");
    assert_eq!(pair.after(SPAN - Duration::from_millis(1)), StderrOutput::default());
    assert_eq!(pair.stderr.due(), Some(pair.now + Duration::from_millis(1)));
    pair.says("then\n");
    assert_eq!(pair.after(Duration::from_millis(1)), StderrOutput { lost: 8, ..lines(["then"]) });
    pair.says("now\n");
    assert_eq!(pair.hear(), lines(["now"]));
    assert_eq!(pair.stderr.due(), None);
}

/// A flooding process costs a bounded number of octets a second, and is not even polled once that is used up.
#[test]
fn a_flood_costs_a_bounded_number_of_octets_and_nobody_waits() {
    let mut pair = Pair::new();
    let line = "x".repeat(63) + "\n";
    let (mut read, mut lost) = (0, 0);
    for second in 1..=3 {
        let mut written = 0;
        for _ in 0..20 {
            written += pair.floods(&line);
            let said = pair.hear();
            read += said.lines.len() as u64;
            lost += said.lost;
        }
        assert!(pair.stderr.watched().is_none(), "it is not looked at any more");
        assert!(written <= 2 * (MOST_OCTETS / 64) as u64, "{written} lines found room");
        assert_eq!(read, second * MOST_LINES as u64);
        let said = pair.after(SPAN);
        assert!(said.is_cut);
        lost += said.lost;
        read += said.lines.len() as u64;
    }
    assert_eq!(lost, 3 * (MOST_OCTETS / 64 - MOST_LINES) as u64);
}

#[test]
fn of_what_a_dead_one_leaves_the_end_is_told() {
    let mut pair = Pair::new();
    pair.says(&"flood\n".repeat(MOST_LINES + 5));
    pair.hear();
    pair.says(&"flood\n".repeat(MOST_LINES + 2));
    pair.says("thread 'edge/vcpu0' panicked");
    let said = pair.stderr.rest();
    assert_eq!((said.lines.len(), said.lost), (MOST_LINES, 5 + 3));
    assert_eq!(said.lines.last().map(String::as_str), Some("thread 'edge/vcpu0' panicked"));
}

#[test]
fn a_pipe_that_is_closed_is_not_looked_at_any_more() {
    let mut pair = Pair::new();
    pair.says("thread 'edge/vcpu0' panicked");
    let Pair { mut stderr, its, now } = pair;
    drop(its);
    assert_eq!(stderr.hear(now), StderrOutput::default());
    assert!(stderr.watched().is_none());
    assert_eq!(stderr.rest(), lines(["thread 'edge/vcpu0' panicked"]));
    assert_eq!(stderr.rest(), StderrOutput::default());
}
