//! Receivers of lessons, and how far each has taken them. A router is one learner, or two: the data plane, which sorts its frames out,
//! and the process that its machine runs in, if it has one of its own; each member of a group has one. The slowest sets the pace.

use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Learners {
    told: u64,
    /// True if everything is being told from its beginning, or was: what a former telling had under way is told first.
    has_begun: bool,
    /// Number of lessons with which everything was told.
    whole: Option<u64>,
    /// Lessons that all have taken.
    taken_by_all: u64,
    /// By router; without a name: the data plane.
    known: BTreeMap<String, Progress>,
}

/// What a learner has taken.
#[derive(Debug, Default)]
struct Progress {
    taken: u64,
    /// Networks that were not in its tables then.
    late: u64,
}

impl Learners {
    /// A lesson is told to these, with which the telling of everything begins, or ends.
    pub(super) fn tell(&mut self, learners: &[Option<String>], (begins, ends): (bool, bool)) {
        for learner in learners {
            let new = || Progress { taken: self.told, late: 0 };
            self.known.entry(name(learner.as_deref()).to_owned()).or_insert_with(new);
        }
        self.told += 1;
        self.has_begun |= begins;
        self.whole = self.whole.or((ends && self.has_begun).then_some(self.told));
    }

    /// Returns true if one of them knows everything.
    pub(super) fn knows_all(&self, learner: Option<&str>) -> bool {
        let taken = self.known.get(name(learner)).map(|progress| progress.taken);
        taken.zip(self.whole).is_some_and(|(taken, whole)| taken >= whole)
    }

    /// One of them has taken a lesson; so many networks are not in its tables. Returns how many lessons all have taken by now that
    /// they had not before.
    pub(super) fn has_taken(&mut self, learner: Option<&str>, late: u64) -> u64 {
        if let Some(progress) = self.known.get_mut(name(learner)) {
            // What was told before everything began anew may be answered later.
            *progress = Progress { taken: (progress.taken + 1).min(self.told), late };
        }
        self.advance()
    }

    /// Only these are still there. Returns the same.
    pub(super) fn keep(&mut self, is_there: impl Fn(Option<&str>) -> bool) -> u64 {
        self.known.retain(|learner, _| is_there(Some(learner.as_str()).filter(|name| !name.is_empty())));
        self.advance()
    }

    /// Everything is told anew, to whoever is there then.
    pub(super) fn begin_anew(&mut self) {
        *self = Self::default();
    }

    /// Most networks that are not in the tables of one of them.
    pub(super) fn late(&self) -> u64 {
        self.known.values().map(|progress| progress.late).max().unwrap_or(0)
    }

    fn advance(&mut self) -> u64 {
        let by_all = self.known.values().map(|progress| progress.taken).min().unwrap_or(self.told);
        let news = by_all.saturating_sub(self.taken_by_all);
        self.taken_by_all += news;
        news
    }
}

fn name(learner: Option<&str>) -> &str {
    learner.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGINS: (bool, bool) = (true, false);
    const GOES_ON: (bool, bool) = (false, false);
    const ENDS: (bool, bool) = (false, true);

    fn both() -> Vec<Option<String>> {
        vec![None, Some("core_0".to_owned())]
    }

    #[test]
    fn the_slowest_sets_the_pace() {
        let mut learners = Learners::default();
        (0..3).for_each(|_| learners.tell(&both(), GOES_ON));
        assert_eq!([learners.has_taken(None, 0), learners.has_taken(None, 0)], [0, 0]);
        assert_eq!(learners.has_taken(Some("core_0"), 7), 1);
        assert_eq!(learners.late(), 7);
        assert_eq!(learners.has_taken(Some("core_0"), 0), 1);
        assert_eq!((learners.has_taken(None, 0), learners.late()), (0, 0));
        assert_eq!(learners.has_taken(Some("core_0"), 0), 1);
    }

    #[test]
    fn who_is_gone_holds_nobody_up_and_who_comes_is_at_the_present() {
        let mut learners = Learners::default();
        learners.tell(&both(), GOES_ON);
        assert_eq!(learners.has_taken(None, 0), 0);
        assert_eq!(learners.keep(|learner| learner.is_none()), 1);
        learners.tell(&both(), GOES_ON);
        assert_eq!(learners.has_taken(None, 0), 0);
        assert_eq!(learners.has_taken(Some("core_0"), 0), 1, "it was told the second lesson alone");
        assert_eq!(learners.has_taken(Some("core_1"), 0), 0, "nobody has told it anything");
    }

    #[test]
    fn answers_of_before_are_no_more_than_what_was_told() {
        let mut learners = Learners::default();
        (0..4).for_each(|_| learners.tell(&[None], GOES_ON));
        learners.begin_anew();
        learners.tell(&[None], GOES_ON);
        assert_eq!([learners.has_taken(None, 0), learners.has_taken(None, 0)], [1, 0]);
    }

    #[test]
    fn one_knows_all_when_it_has_taken_the_lesson_that_ends() {
        let mut learners = Learners::default();
        [BEGINS, ENDS, GOES_ON].into_iter().for_each(|what| learners.tell(&both(), what));
        let knows = |learners: &Learners| [None, Some("core_0")].map(|learner| learners.knows_all(learner));
        learners.has_taken(Some("core_0"), 0);
        assert_eq!(knows(&learners), [false, false]);
        learners.has_taken(Some("core_0"), 0);
        assert_eq!(knows(&learners), [false, true]);
        assert!(!learners.knows_all(Some("core_1")), "it was told nothing");
        learners.begin_anew();
        assert_eq!(knows(&learners), [false, false]);
    }

    #[test]
    fn the_end_of_a_former_telling_is_not_that_of_the_present_one() {
        let mut learners = Learners::default();
        learners.tell(&both(), BEGINS);
        learners.begin_anew();
        learners.tell(&both(), ENDS);
        learners.has_taken(Some("core_0"), 0);
        assert!(!learners.knows_all(Some("core_0")), "it was told the end alone");
        learners.tell(&both(), (true, true));
        learners.has_taken(Some("core_0"), 0);
        assert!(learners.knows_all(Some("core_0")));
    }
}
