//! `ringroad remote MEMBER`: prints the file of a group's back end on another host, from the plan that runs, and with `--follow` again
//! whenever it is another one.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use api::{Answer, Client, Request};
use clap::Args;
use command_line::client::{self, Kind, unexpected};
use command_line::group;

/// Line after each file, a comment of TOML.
pub(crate) const END: &str = "# end of file\n";
/// Time between two questions to the run.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of `ringroad remote`.
#[derive(Args)]
pub(crate) struct Options {
    /// Name of the back end: core_63
    member: String,
    /// Print the whole file again after each change that makes it another one, and an empty line each second meanwhile,
    /// until nobody reads it
    #[arg(long)]
    follow: bool,
}

/// Prints the file, until nobody reads it any more if it is to be followed.
///
/// # Errors
/// No group that runs has such a back end, or the run ends.
pub(crate) fn remote(options: &Options) -> Result<()> {
    let group = group::of(&options.member).unwrap_or(&options.member);
    let mut target = client::find(group, Kind::Router)?;
    let mut followed = Followed::default();
    // An empty line ends the programs on the way to a reader that has left, and tells one that has not that files may come.
    let no_news = if io::stdout().is_terminal() { "" } else { "\n" };
    loop {
        let file = followed.next(&mut target.client, &options.member)?;
        let text = file.map_or_else(|| no_news.to_owned(), |file| client::plain(&file) + END);
        if !command_line::print_while_read(&text)? || !options.follow {
            return Ok(());
        }
        thread::sleep(PAUSE);
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
        if let Some(file) = &file {
            self.file.clone_from(file);
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
