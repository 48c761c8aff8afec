//! `ringroad remote MEMBER`: prints the file of a group's back end on another host, from the plan that runs, and with `--follow` again
//! whenever it is another one.

use std::io;

use anyhow::Result;
use api::{Answer, Client, Request};
use clap::Args;
use command_line::client::{self, Kind, unexpected};
use command_line::group;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Line after each file, a comment of TOML.
pub(crate) const END: &str = "# end of file\n";
/// Line of such a file below which the keys of its router are.
const ROUTER: &str = "[[router]]\n";
/// Time between two questions to the run.
const PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Options of `ringroad remote`.
#[derive(Args)]
pub(crate) struct Options {
    /// Name of the back end: core_63
    member: String,
    /// Print the whole file again after each change that makes it another one, until Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Add a key that only the other host knows to the file's router: 'engine = "process"'
    #[arg(long = "with", value_name = "LINE")]
    lines: Vec<String>,
}

/// Prints the file, until nobody reads it any more if it is to be followed.
///
/// # Errors
/// No group that runs has such a back end, or the run ends.
pub(crate) fn remote(options: &Options) -> Result<()> {
    let group = group::of(&options.member).unwrap_or(&options.member);
    let mut target = client::find(group, Kind::Router)?;
    let mut followed = Followed::default();
    loop {
        if let Some(file) = followed.next(&mut target.client, &options.member)? {
            let text = client::plain(&whole(&file, &options.lines));
            if !command_line::print_while_read(&text)? {
                return Ok(());
            }
        }
        if !options.follow || reader_leaves()? {
            return Ok(());
        }
    }
}

/// The file as it was told last.
#[derive(Default)]
struct Followed {
    /// Number of the plan that it is from.
    plan: Option<u64>,
    file: String,
}

impl Followed {
    /// Asks the run for the file; `None`: it is the one that was told last.
    fn next(&mut self, run: &mut Client, member: &str) -> Result<Option<String>> {
        let request = Request::Remote { member: member.to_owned(), known: self.plan };
        let Answer::Remote { plan, file } = run.ask(&request)? else { return Err(unexpected().into()) };
        self.plan = Some(plan);
        // Most changes concern other routers.
        let file = file.filter(|file| *file != self.file);
        file.iter().for_each(|file| self.file.clone_from(file));
        Ok(file)
    }
}

/// A file with further lines of its router, and the line after it.
fn whole(file: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    file.replacen(ROUTER, &format!("{ROUTER}{lines}"), 1) + END
}

/// Waits for a moment. Returns true as soon as whoever reads what is printed has left.
fn reader_leaves() -> Result<bool> {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    match poll(&mut watched, Some(&PAUSE)) {
        Ok(_) | Err(Errno::INTR) => Ok(!watched[0].revents().is_empty()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
