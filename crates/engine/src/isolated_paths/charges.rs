//! What the process of an isolated router is charged with at its NICs.

use telemetry::Kind;
use vhost_user::backend::News;

/// Connections of a process that was charged. The supervisor kills it, which ends them; a fault that ends one of them before that
/// is of the same process, and must not be charged to the one that is started in its place.
#[derive(Debug)]
pub(super) struct Charges {
    /// For each NIC: true from a charge until the connection there has ended, or another process is served.
    ending: Vec<bool>,
}

impl Charges {
    /// Creates the state of a router with this number of NICs, whose process was not charged.
    pub(super) fn new(nics: usize) -> Self {
        Self { ending: vec![false; nics] }
    }

    /// Notes that the process is charged.
    pub(super) fn charge(&mut self) {
        self.ending.fill(true);
    }

    /// Returns the kind and line of the event that is to be reported for news of a NIC, if one is: only what the process has done
    /// itself is charged, and that once.
    pub(super) fn judge(&mut self, nic: usize, news: News) -> Option<(Kind, String)> {
        if let News::CannotAccept(line) = news {
            return Some((Kind::Notice, line));
        }
        let was_ending = self.ending.get_mut(nic).is_some_and(std::mem::take);
        let News::Fault(line) = news else { return None };
        if was_ending {
            return Some((Kind::Notice, line));
        }
        self.charge();
        // The connection at this NIC has ended already.
        if let Some(own) = self.ending.get_mut(nic) {
            *own = false;
        }
        Some((Kind::Charged, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> String {
        "a line".to_owned()
    }

    fn fault() -> News {
        News::Fault(line())
    }

    #[test]
    fn a_process_is_charged_with_what_it_has_done_and_not_with_what_this_host_lacks() {
        let mut charges = Charges::new(1);
        assert_eq!(charges.judge(0, News::CannotAccept(line())), Some((Kind::Notice, line())));
        assert_eq!(charges.judge(0, News::Served(Some(7))), None);
        assert_eq!(charges.judge(0, News::Gone), None);
        assert_eq!(charges.judge(0, fault()), Some((Kind::Charged, line())));
        assert_eq!(charges.judge(0, fault()), Some((Kind::Charged, line())), "each time that it connects");
    }

    #[test]
    fn the_next_process_is_not_charged_with_what_ends_the_connections_of_the_last_one() {
        let mut charges = Charges::new(3);
        assert_eq!(charges.judge(1, fault()), Some((Kind::Charged, line())));
        assert_eq!(charges.judge(0, News::CannotAccept(line())), Some((Kind::Notice, line())));
        assert_eq!(charges.judge(0, fault()), Some((Kind::Notice, line())), "it was charged at another NIC");
        assert_eq!(charges.judge(2, News::Gone), None);
        for nic in 0..3 {
            assert_eq!(charges.judge(nic, News::Served(Some(8))), None);
        }
        charges.charge();
        assert_eq!(charges.judge(2, fault()), Some((Kind::Notice, line())), "it was charged by the watch");
        assert_eq!(charges.judge(1, News::Served(Some(9))), None);
        assert_eq!(charges.judge(1, fault()), Some((Kind::Charged, line())), "the next process");
    }
}
