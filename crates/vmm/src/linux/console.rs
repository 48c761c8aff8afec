//! Where the serial console goes, and what is read off it: that the guest's kernel has panicked. A kernel without special
//! drivers has no other way to say so, and by default it waits for ever then.

use std::fs::File;
use std::io::Write;

/// What a kernel writes when it panics; the reason follows.
const PANIC: &[u8] = b"Kernel panic - not syncing: ";
/// What it writes last, where it is not told to reset itself.
const PANIC_END: &[u8] = b"---[ end Kernel panic";
/// Octets of a line that are looked at.
const LINE: usize = 256;

/// The console's end on our side.
#[derive(Debug)]
pub(super) struct Console {
    output: Option<File>,
    line: Vec<u8>,
    panic: Option<String>,
    ended: bool,
}

impl Console {
    /// A console that is written to this file, or only looked at.
    pub(super) fn new(output: Option<File>) -> Self {
        Self { output, line: Vec::with_capacity(LINE), panic: None, ended: false }
    }

    /// Takes an octet.
    pub(super) fn put(&mut self, octet: u8) {
        if let Some(output) = &mut self.output {
            // What cannot be written is lost: the guest must not wait for it, nor fail for it.
            let _ = output.write(&[octet]);
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

    /// Why the kernel has panicked, if it has.
    pub(super) fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// Whether it has panicked and has nothing more to say.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}

fn after<'l>(line: &'l [u8], what: &[u8]) -> Option<&'l [u8]> {
    let at = line.windows(what.len()).position(|window| window == what)?;
    line.get(at + what.len()..)
}

/// The octets as one line of text that can be shown to somebody.
fn printable(octets: &[u8]) -> String {
    let visible = octets.iter().filter(|octet| (b' '..=b'~').contains(*octet));
    visible.map(|octet| char::from(*octet)).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &str) -> Console {
        let mut console = Console::new(None);
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

    #[test]
    fn all_of_it_comes_to_the_file() {
        let file = tempfile::tempfile().expect("a file");
        let mut console = Console::new(Some(file.try_clone().expect("a descriptor")));
        b"login: \xff\r\n".iter().for_each(|octet| console.put(*octet));
        let mut file = file;
        let mut written = Vec::new();
        std::io::Seek::rewind(&mut file).expect("a file can be read again");
        std::io::Read::read_to_end(&mut file, &mut written).expect("what was written");
        assert_eq!(written, b"login: \xff\r\n");
    }
}
