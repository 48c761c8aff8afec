//! Moderated message interrupts of one queue pair of virtio-net.

use std::sync::Arc;

use nic::moderation::{Moderation, Moderator, Work};

use super::{Counts, DelayableInterrupts, Line, deferred};

/// Queue of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The receive queue.
    Receive,
    /// The transmit queue.
    Transmit,
}

/// Message interrupts of a pair.
pub struct Messages {
    receive: Message,
    transmit: Message,
}

struct Message {
    moderator: Moderator,
    line: Option<Arc<dyn Line>>,
    counts: Counts,
}

impl Messages {
    /// Creates the state of two queues that have no message.
    pub fn new(moderation: Moderation) -> Self {
        let message =
            || Message { moderator: Moderator::new(moderation), line: None, counts: Counts::default() };
        Self { receive: message(), transmit: message() }
    }

    /// Sets the message that the queue sends from now on, if any.
    pub fn set_line(&mut self, queue: Queue, line: Option<Arc<dyn Line>>) {
        self.of(queue).line = line;
    }

    /// Handles the end of the driver: drops delayed messages.
    pub fn reset(&mut self) {
        for message in [&mut self.receive, &mut self.transmit] {
            message.moderator.seen();
            message.line = None;
        }
    }

    /// Requests an interrupt for the queue: `frames` have moved.
    pub fn request(&mut self, queue: Queue, frames: usize, now: u64) {
        let work = match queue {
            Queue::Receive => Work::Received(frames as u32),
            Queue::Transmit => Work::Sent,
        };
        let message = self.of(queue);
        if message.moderator.request(work, now) {
            message.send();
        } else {
            message.counts.moderated += 1;
        }
    }

    fn of(&mut self, queue: Queue) -> &mut Message {
        match queue {
            Queue::Receive => &mut self.receive,
            Queue::Transmit => &mut self.transmit,
        }
    }
}

impl Message {
    fn send(&mut self) {
        if let Some(line) = &self.line {
            self.counts.raised += 1;
            deferred::signal(line);
        }
    }

    fn settle(&mut self, now: u64) -> Option<u64> {
        if self.moderator.take_due(now) {
            self.send();
        }
        self.moderator.next()
    }
}

impl DelayableInterrupts for Messages {
    fn settle(&mut self, now: u64) -> Option<u64> {
        let next = [self.receive.settle(now), self.transmit.settle(now)];
        next.into_iter().flatten().min()
    }

    fn set_timer_served(&mut self, kept: bool, _: u64) {
        self.receive.moderator.set_timer_served(kept);
        self.transmit.moderator.set_timer_served(kept);
    }

    fn counts(&self) -> Counts {
        let (a, b) = (self.receive.counts, self.transmit.counts);
        Counts {
            raised: a.raised + b.raised,
            suppressed: a.suppressed + b.suppressed,
            moderated: a.moderated + b.moderated,
        }
    }
}

#[cfg(test)]
mod tests;
