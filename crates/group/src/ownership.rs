//! Owners of the queues of a link.
//!
//! A link has a fixed number of queues for its life: detaching one would number the others anew, and nearly all flows would change
//! their queue. So queues stay, and members own them. A queue that changes hands is released first, at the end of a burst, and taken
//! afterwards, so that two threads never read it at the same time and no frame of it overtakes another one:
//!
//! ```text
//!         want                 released                    gone (its thread has ended)
//!  Held(a) ---> Ending(a) ---------------> Held(b)          Held(a), Ending(a) --------> Held(b)
//!     |  order: release        order: take                        order: take
//! ```

use crate::assign::Assignment;
use crate::member::{Member, Shares};

/// What is to be done about a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Stop reading it, and tell [`Ownership::released`].
    Release {
        /// Number of the queue.
        queue: usize,
        /// Member that reads it.
        by: Member,
    },
    /// Read it from now on.
    Take {
        /// Number of the queue.
        queue: usize,
        /// Member that will read it.
        by: Member,
    },
}

/// State of a queue: the member that may read it, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Free,
    Held(Member),
    /// Still this one, which was told to release it.
    Ending(Member),
}

/// Present and wanted owners of the queues of a link.
#[derive(Clone, Debug)]
pub struct Ownership {
    holds: Vec<Hold>,
    wanted: Assignment,
}

impl Ownership {
    /// So many queues, that nobody reads.
    pub fn new(queues: usize) -> Self {
        Self { holds: vec![Hold::Free; queues], wanted: Assignment::new(queues) }
    }

    /// Returns the member that may read a queue.
    pub fn reader(&self, queue: usize) -> Option<Member> {
        match self.holds.get(queue)? {
            Hold::Free => None,
            Hold::Held(member) | Hold::Ending(member) => Some(*member),
        }
    }

    /// Returns the wanted owner of each queue.
    pub fn wanted(&self) -> &Assignment {
        &self.wanted
    }

    /// Whether everybody reads what is theirs, and nothing else.
    pub fn is_settled(&self) -> bool {
        let is_right = |(hold, wanted): (&Hold, &Option<Member>)| match hold {
            Hold::Free => wanted.is_none(),
            Hold::Held(member) => *wanted == Some(*member),
            Hold::Ending(_) => false,
        };
        self.holds.iter().zip(self.wanted.owners()).all(is_right)
    }

    /// Deals the queues out to these members; `load` tells how much passes each queue.
    pub fn want(&mut self, shares: &Shares, load: impl Fn(usize) -> u64) -> Vec<Order> {
        self.wanted = self.wanted.dealt(shares, load);
        (0..self.holds.len()).filter_map(|queue| self.pursue(queue)).collect()
    }

    /// A member has ended the last burst that it read from a queue.
    pub fn released(&mut self, queue: usize, by: Member) -> Option<Order> {
        let hold = self.holds.get_mut(queue).filter(|hold| **hold == Hold::Ending(by))?;
        *hold = Hold::Free;
        self.pursue(queue)
    }

    /// The thread that read for a member has ended. What the member is to have comes to others by [`Ownership::want`].
    pub fn gone(&mut self, member: Member) -> Vec<Order> {
        let is_its = |hold: &Hold| matches!(hold, Hold::Held(own) | Hold::Ending(own) if *own == member);
        let queues: Vec<usize> = (0..self.holds.len()).filter(|&queue| is_its(&self.holds[queue])).collect();
        queues.iter().for_each(|&queue| self.holds[queue] = Hold::Free);
        let others = queues.into_iter().filter(|&queue| self.wanted.owner(queue) != Some(member));
        let others: Vec<usize> = others.collect();
        others.into_iter().filter_map(|queue| self.pursue(queue)).collect()
    }

    /// The next order about a queue that is not where it is wanted.
    fn pursue(&mut self, queue: usize) -> Option<Order> {
        let wanted = self.wanted.owner(queue);
        let hold = self.holds.get_mut(queue)?;
        match (*hold, wanted) {
            (Hold::Free, Some(by)) => {
                *hold = Hold::Held(by);
                Some(Order::Take { queue, by })
            }
            (Hold::Held(by), wanted) if wanted != Some(by) => {
                *hold = Hold::Ending(by);
                Some(Order::Release { queue, by })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
