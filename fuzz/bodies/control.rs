//! A control client that sends arbitrary data, in arbitrary pieces, whether it reads or not: each request is received
//! correctly and answered by one line, garbage is answered once and ends the conversation, buffers are bounded, and
//! nothing panics.
//!
//! The input is a list of steps of one octet each: how many octets of the rest are received at once (its low six bits,
//! in steps that double), whether the client then reads, and whether time passes. The octets follow their step.

use std::time::{Duration, Instant};

use api::conversation::{Conversation, DisconnectReason, Input};
use api::{Answer, LONGEST_APPLY, Limits, Outcome, Request};

/// Client's side: the data it has read, and the answers it may expect.
#[derive(Default)]
struct Client {
    read: Vec<u8>,
    due: Vec<Outcome>,
    garbage: usize,
}

impl Client {
    /// Reads everything, and checks that it consists of the expected answers.
    fn read(&mut self, talk: &mut Conversation, now: Instant) {
        self.read.extend_from_slice(talk.unsent());
        talk.sent(talk.unsent().len(), now);
        assert!(talk.unsent().is_empty());
    }

    fn check(&self) {
        let lines: Vec<_> = self.read.split_inclusive(|octet| *octet == b'\n').collect();
        assert_eq!(lines.len(), self.due.len() + self.garbage);
        for (line, due) in lines.iter().zip(&self.due) {
            assert_eq!(api::parse_answer(line).expect("an answer"), *due);
        }
        if self.garbage > 0 {
            let last = lines.last().expect("a line");
            assert!(api::parse_answer(last).expect("an answer").is_err());
        }
    }
}

/// Returns the answer to a request, which contains some of the client's own octets.
fn answer(request: &Request) -> Outcome {
    match request {
        Request::Stop { name } => Err(api::Error::new(name.clone())),
        Request::Apply { text, .. } => Ok(Answer::Done { message: text.clone() }),
        other => Ok(Answer::Done { message: format!("{other:?}") }),
    }
}

/// Processes all pending requests, and answers them.
fn hear(talk: &mut Conversation, client: &mut Client, now: Instant) {
    loop {
        match talk.hear(now) {
            Input::Nothing => return,
            Input::Garbage => {
                assert!(!talk.listens());
                client.garbage += 1;
            }
            Input::Request(request) => {
                assert!(client.garbage == 0 && talk.is_asked() && !talk.listens());
                let again = api::encode_request(&request).expect("JSON");
                assert_eq!(api::parse_request(&again).expect("a request"), request);
                let said = answer(&request);
                talk.answer(&said, false, now);
                client.due.push(said);
            }
        }
    }
}

/// Plays both sides of the conversation.
fn talk(input: &[u8]) {
    let begun = Instant::now();
    let (limits, mut now) = (Limits { output: 1 << 16, ..Limits::default() }, begun);
    let (mut talk, mut client) = (Conversation::new(limits, now), Client::default());
    let mut rest = input;
    while let [step, octets @ ..] = rest {
        let len = octets.len().min(1 << (step & 15));
        let (octets, more) = octets.split_at(len);
        rest = more;
        if talk.listens() {
            talk.receive(octets, now);
        }
        hear(&mut talk, &mut client, now);
        assert!(talk.kept() <= LONGEST_APPLY + (1 << 15) + limits.output);
        now += Duration::from_millis(u64::from(step >> 5) * 500);
        if talk.end(now) == Some(DisconnectReason::SlowReader) {
            return;
        }
        if step & 16 != 0 {
            client.read(&mut talk, now);
        }
        if talk.end(now).is_some() {
            break;
        }
    }
    talk.end_input();
    hear(&mut talk, &mut client, now);
    if talk.end(now) != Some(DisconnectReason::SlowReader) {
        client.read(&mut talk, now);
        assert!(talk.end(now).is_some(), "all is said");
        client.check();
    }
}

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    talk(input);
    // The opposite direction: answers of a run, or of a data plane, as clients parse them.
    if let Ok(outcome) = api::parse_answer(input) {
        let again = api::encode_answer(&outcome).expect("JSON");
        assert_eq!(api::parse_answer(&again).expect("an answer"), outcome);
    }
}
