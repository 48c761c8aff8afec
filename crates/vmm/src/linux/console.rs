//! Output of the serial console, and detection of kernel panics in it. A kernel without special drivers has
//! no other way to report a panic, and by default waits indefinitely after one.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use super::CONSOLE_ROOM;

/// Text that a kernel writes when it panics, followed by the reason.
const PANIC: &[u8] = b"Kernel panic - not syncing: ";
/// Last text that it writes, unless it is configured to reset itself.
const PANIC_END: &[u8] = b"---[ end Kernel panic";
/// Octets of a line that are examined.
const LINE: usize = 256;
/// Octets between two checks of the file's length: another process may have emptied it.
const LOOK: u32 = 4096;
/// Last line of a file that is full.
const FULL: &[u8] = b"\r\n[ringroad: the file is full; what follows is lost until it has been emptied]\r\n";

ledger::counters! {
    /// Counters of a guest's serial console.
    pub struct ConsoleCounters {
        /// Octets written to its file.
        octets,
        /// Octets lost because the file is full.
        lost_full,
        /// Octets lost because a write failed: nobody reads, or the disk is full.
        lost_failed,
    }
}

/// Host side of the console.
#[derive(Debug)]
pub(super) struct Console {
    output: Option<Output>,
    line: Vec<u8>,
    panic: Option<String>,
    ended: bool,
}

impl Console {
    /// Creates a console that is written to this file, or only examined.
    pub(super) fn new(output: Option<File>, counters: &Arc<ConsoleCounters>) -> Self {
        let output = output.map(|file| Output::new(file, counters.clone()));
        Self { output, line: Vec::with_capacity(LINE), panic: None, ended: false }
    }

    /// Accepts an octet.
    pub(super) fn put(&mut self, octet: u8) {
        if let Some(output) = &mut self.output {
            output.put(octet);
        }
        match octet {
            b'\n' => self.end_line(),
            _ if self.line.len() < LINE => self.line.push(octet),
            _ => {}
        }
    }

    fn end_line(&mut self) {
        if let Some(reason) = after(&self.line, PANIC)
            && self.panic.is_none()
        {
            self.panic = Some(printable(reason));
        }
        self.ended |= self.panic.is_some() && after(&self.line, PANIC_END).is_some();
        self.line.clear();
    }

    /// Returns the reason of a kernel panic, if there was one.
    pub(super) fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// Returns true if the kernel has panicked and printed its last line.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}

/// The output file, and the room left in it.
#[derive(Debug)]
struct Output {
    file: File,
    counters: Arc<ConsoleCounters>,
    /// Octets until the file is full.
    room: u64,
    /// Octets until its length is checked again.
    unseen: u32,
}

impl Output {
    fn new(file: File, counters: Arc<ConsoleCounters>) -> Self {
        Self { file, counters, room: 0, unseen: 0 }
    }

    /// Writes an octet. One that cannot be written is lost: the guest must neither wait nor fail because of
    /// it.
    fn put(&mut self, octet: u8) {
        if self.unseen == 0 {
            (self.room, self.unseen) = (self.room_now(), LOOK);
        }
        self.unseen -= 1;
        if self.room == 0 {
            return self.counters.lost_full.add(1);
        }
        match self.file.write(&[octet]) {
            Ok(1) => self.counters.octets.add(1),
            _ => return self.counters.lost_failed.add(1),
        }
        self.room -= 1;
        if self.room == 0 {
            // If this line cannot be written it is missing for the reader, but the counter still tells.
            let _ = self.file.write(FULL);
        }
    }

    /// Returns the room left in the file; a terminal or pipe is never full for good.
    fn room_now(&self) -> u64 {
        match self.file.metadata() {
            Ok(file) if file.is_file() => CONSOLE_ROOM.saturating_sub(file.len()),
            _ => u64::MAX,
        }
    }
}

fn after<'l>(line: &'l [u8], what: &[u8]) -> Option<&'l [u8]> {
    let at = line.windows(what.len()).position(|window| window == what)?;
    line.get(at + what.len()..)
}

/// Returns the printable octets, as one line of text.
fn printable(octets: &[u8]) -> String {
    let visible = octets.iter().filter(|octet| (b' '..=b'~').contains(*octet));
    visible.map(|octet| char::from(*octet)).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &str) -> Console {
        let mut console = Console::new(None, &Arc::default());
        text.bytes().for_each(|octet| console.put(octet));
        console
    }

    #[test]
    fn a_panic_is_heard_with_its_reason() {
        let said = "[    1.2] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\r\n";
        let heard = console(said);
        assert_eq!(heard.panic(), Some("Attempted to kill init! exitcode=0x00000100"));
        assert!(!heard.has_ended(), "there is more to come");
        let end = "[    1.3] ---[ end Kernel panic - not syncing: Attempted to kill init! ]---\r\n";
        assert!(console(&format!("{said}[    1.2] CPU: 0\r\n{end}")).has_ended());
    }

    #[test]
    fn nothing_else_is_a_panic() {
        let quiet = console("all is well\n---[ end trace 0 ]---\nKernel panic\n");
        assert_eq!((quiet.panic(), quiet.has_ended()), (None, false));
        assert_eq!(console("Kernel panic - not syncing: no end of line").panic(), None);
    }

    #[test]
    fn long_lines_and_strange_octets_do_no_harm() {
        let long = format!("{}\nKernel panic - not syncing: \x1b[31mred\u{7}\n", "x".repeat(10 * LINE));
        assert_eq!(console(&long).panic(), Some("[31mred"));
    }

    /// Returns a file, and a console that writes to it.
    fn recorded() -> (File, Console, Arc<ConsoleCounters>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("console");
        let file = File::options().append(true).create(true).open(&path).expect("a file");
        let counters = Arc::default();
        (File::open(path).expect("a file"), Console::new(Some(file), &counters), counters)
    }

    fn counted(counters: &ConsoleCounters) -> [u64; 3] {
        [&counters.octets, &counters.lost_full, &counters.lost_failed].map(ledger::Counter::get)
    }

    #[test]
    fn all_of_it_comes_to_the_file() {
        let (mut file, mut console, counters) = recorded();
        b"login: \xff\r\n".iter().for_each(|octet| console.put(*octet));
        let mut written = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut written).expect("what was written");
        assert_eq!(written, b"login: \xff\r\n");
        assert_eq!(counted(&counters), [10, 0, 0]);
    }

    #[test]
    fn a_file_becomes_full_and_can_be_emptied() {
        let (file, mut console, counters) = recorded();
        let length = || file.metadata().expect("a file").len();
        // As after a long time, with a file that others have written to as well.
        let output = console.output.as_ref().expect("a file");
        output.file.set_len(CONSOLE_ROOM - 10).expect("a sparse file");
        (0..10 + 3 * LOOK).for_each(|_| console.put(b'x'));
        let full = CONSOLE_ROOM + FULL.len() as u64;
        assert_eq!((length(), counted(&counters)), (full, [10, u64::from(3 * LOOK), 0]));
        // The next start of the guest finds the file full.
        let again = console.output.as_ref().expect("a file").file.try_clone().expect("a descriptor");
        let mut console = Console::new(Some(again.try_clone().expect("a descriptor")), &counters);
        "no room\n".bytes().for_each(|octet| console.put(octet));
        assert_eq!(length(), full, "nothing more, and not that line again");
        again.set_len(0).expect("emptied");
        (0..LOOK).for_each(|_| console.put(b'y'));
        assert_eq!(length(), 8, "it was looked at once in so many octets");
        assert_eq!(counted(&counters)[0], 18);
    }

    #[test]
    fn what_nobody_reads_is_lost_and_counted() {
        let counters = Arc::default();
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut console = Console::new(Some(full), &counters);
        "hello".bytes().for_each(|octet| console.put(octet));
        assert_eq!(counted(&counters), [0, 0, 5]);
    }
}
