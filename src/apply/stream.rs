//! `ringroad apply --stream`: applies each file that comes from standard input.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use command_line::client::{self, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::{LONGEST, Options};
use crate::remote::END;

/// Name of these files in messages.
const NAME: &str = "stdin";
/// Longest time without a request to the run, which would disconnect a client that asks nothing for a minute; the time after which a
/// file that it has refused is tried again, and in which something has to come: who sends the files sends empty lines between them.
const PAUSE: Duration = Duration::from_secs(30);
/// Octets read at a time.
const PIECE: usize = 64 << 10;

/// Applies each file of standard input. One that is refused is told in a line, and the next one is read.
///
/// # Errors
/// There is no such run, or it ends; nothing comes any more; or at the end of the input: it ends within a file, or the last file was not
/// applied.
pub(super) fn apply(options: &Options) -> Result<()> {
    // No run has this name: the only one is meant.
    let mut stream = Stream::new(options, options.target("")?);
    let mut octets = vec![0_u8; PIECE];
    loop {
        if stream.has_input()? {
            match read(io::stdin(), octets.as_mut_slice()) {
                Ok(0) => return stream.end(),
                Ok(len) => stream.hear(&octets[..len], Instant::now()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot read standard input"),
            }
        }
        if stream.left().is_zero() {
            stream.ask()?;
        }
    }
}

/// Files that follow each other, and the run that becomes what they say.
struct Stream<'o> {
    options: &'o Options,
    target: Target,
    files: Files,
    /// Whether the last file was applied, or why not; `None`: none has come.
    last: Option<Result<(), String>>,
    /// The last file, if the run has refused it, and when: what it lacks may come, so it is tried again.
    again: Option<(String, Instant)>,
    /// When the run was last asked something.
    asked: Instant,
    /// Whether something has come since.
    has_heard: bool,
}

impl<'o> Stream<'o> {
    fn new(options: &'o Options, target: Target) -> Self {
        let (files, asked) = (Files::default(), Instant::now());
        Self { options, target, files, last: None, again: None, asked, has_heard: false }
    }

    /// Time until the run is to be asked something.
    fn left(&self) -> Duration {
        PAUSE.saturating_sub(self.asked.elapsed())
    }

    /// Waits for input, or until the run is to be asked something. Returns whether there is input.
    fn has_input(&self) -> Result<bool> {
        let stdin = io::stdin();
        let mut watched =
            [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.target.client, PollFlags::empty())];
        match poll(&mut watched, Timespec::try_from(self.left()).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Who sends the files begins with the present one when this is started again.
        ensure!(watched[1].revents().is_empty(), "the run has ended");
        Ok(!watched[0].revents().is_empty())
    }

    /// Asks the run how it is.
    ///
    /// # Errors
    /// It does not answer, or nothing has come for a while.
    fn ask(&mut self) -> Result<()> {
        let has_heard = std::mem::take(&mut self.has_heard);
        ensure!(has_heard, "no file has come for {} s, and no empty line", PAUSE.as_secs());
        self.target.client.status()?;
        self.asked = Instant::now();
        Ok(())
    }

    /// Takes octets of the input, and tries again what the run has refused. It does so only now that something comes: what a dead
    /// connection has brought must not replace what a new one brings.
    fn hear(&mut self, octets: &[u8], now: Instant) {
        self.has_heard = true;
        self.files.push(octets).into_iter().for_each(|file| self.take(file));
        let due = self.again.take_if(|(_, at)| now.saturating_duration_since(*at) >= PAUSE);
        if let Some((text, _)) = due {
            self.change(text);
        }
    }

    /// Applies the next file, or tells why not.
    fn take(&mut self, file: Result<String>) {
        (self.last, self.again) = (None, None);
        match file.and_then(checked) {
            Ok(text) => self.change(text),
            Err(error) => self.refuse(&error),
        }
    }

    /// Has the run become what a file says.
    fn change(&mut self, text: String) {
        let outcome = self.options.change(&mut self.target, NAME.to_owned(), text.clone());
        // It was that of a change, which may take any time.
        self.target.client.set_timeout(PAUSE);
        self.asked = Instant::now();
        match outcome {
            Ok(()) => self.last = Some(Ok(())),
            Err(error) => {
                self.again = Some((text, self.asked));
                self.refuse(&error);
            }
        }
    }

    /// Tells why the last file is not applied, once.
    fn refuse(&mut self, error: &Error) {
        let why = match error.downcast_ref::<config::Errors>() {
            Some(errors) => errors.lines().collect::<Vec<_>>().join("; "),
            None => format!("{error:#}"),
        };
        let why = client::plain(&why.replace('\n', " "));
        if !matches!(&self.last, Some(Err(known)) if *known == why) {
            // If standard error is closed there is nobody to tell.
            let _ = writeln!(io::stderr(), "ringroad: a file is not applied: {why}");
        }
        self.last = Some(Err(why));
    }

    /// The input has ended.
    fn end(self) -> Result<()> {
        ensure!(
            !self.files.is_cut(),
            "the input ends within a file, which is not applied: a line {:?} follows each whole one",
            END.trim_end()
        );
        match self.last {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => bail!("the last file was not applied"),
            None => bail!("no file has come"),
        }
    }
}

/// Returns a file if it is valid. The run would find its faults as well, and keep events of them.
fn checked(text: String) -> Result<String> {
    config::parse(&text, NAME)?;
    Ok(text)
}

/// Cuts a stream of octets into files, and keeps no more of it than a file may have.
#[derive(Default)]
struct Files {
    /// Lines of the present file.
    text: Vec<u8>,
    /// Present line; of a file that is too long only as much as tells whether it is the one after it.
    line: Vec<u8>,
    too_long: bool,
}

impl Files {
    /// Adds octets. Returns each file that ends among them, or why it is none.
    fn push(&mut self, octets: &[u8]) -> Vec<Result<String>> {
        let mut files = Vec::new();
        for part in octets.split_inclusive(|octet| *octet == b'\n') {
            self.add(part);
            if part.ends_with(b"\n") {
                files.extend(self.end_line());
            }
        }
        files
    }

    /// Adds a part of a line.
    fn add(&mut self, part: &[u8]) {
        self.line.extend_from_slice(part);
        self.too_long |= self.text.len() + self.line.len() > LONGEST as usize + END.len();
        if self.too_long {
            self.text = Vec::new();
            self.line.truncate(END.len());
        }
    }

    /// Ends a line. Returns the file if this is the line after it.
    fn end_line(&mut self) -> Option<Result<String>> {
        let line = std::mem::take(&mut self.line);
        if line != END.as_bytes() {
            // Empty lines before a file are none of its.
            if !(self.too_long || self.text.is_empty() && line == b"\n") {
                self.text.extend(line);
            }
            return None;
        }
        let Self { text, too_long, .. } = std::mem::take(self);
        if too_long {
            return Some(Err(anyhow!("it is too long: at most {LONGEST} octets")));
        }
        Some(String::from_utf8(text).map_err(|_| anyhow!("it is not UTF-8")))
    }

    /// Whether a file has begun and not ended.
    fn is_cut(&self) -> bool {
        self.too_long || !self.text.is_empty() || !self.line.is_empty()
    }
}

#[cfg(test)]
mod tests;
