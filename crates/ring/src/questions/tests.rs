extern crate std;

use std::collections::VecDeque;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// One step of an asker or of who hears it.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u64),
    Hear(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..=QUESTION).prop_map(Step::Ask),
        1 => (0..200_usize).prop_map(Step::Hear),
    ];
    proptest::collection::vec(step, 0..400)
}

proptest! {
    /// Against a queue of 64 from which the oldest one falls out.
    #[test]
    fn each_question_is_heard_once_in_its_order_or_counted_as_lost(steps in steps(), first: u32) {
        let ring = Questions::default();
        ring.set_asked(first);
        let mut hearer = Hearer::new(&ring);
        // What seems to be in the ring was never asked.
        hearer.hear(&ring, PLACES, |_| {});
        let (mut model, mut fallen) = (VecDeque::new(), 0);
        for step in steps {
            match step {
                Step::Ask(question) => {
                    ask(&ring, question);
                    model.push_back(question);
                    if model.len() > PLACES {
                        model.pop_front();
                        fallen += 1;
                    }
                }
                Step::Hear(most) => {
                    let mut got = Vec::new();
                    let heard = hearer.hear(&ring, most, |question| got.push(question));
                    let wanted: Vec<u64> = model.drain(..most.min(model.len())).collect();
                    prop_assert_eq!(&got, &wanted);
                    let lost = std::mem::take(&mut fallen);
                    prop_assert_eq!(heard, Heard { taken: got.len() as u32, lost });
                }
            }
        }
    }

    /// Whatever a hostile asker writes: the work is bounded.
    #[test]
    fn no_asker_makes_the_hearer_read_more_than_there_can_be(
        words in proptest::collection::vec(any::<u64>(), PLACES),
        asked: [u32; 4],
        most in 0..500_usize,
    ) {
        let ring = Questions::default();
        let mut hearer = Hearer::default();
        for (place, word) in words.iter().enumerate() {
            ring.set_word(place, *word);
        }
        for asked in asked {
            ring.set_asked(asked);
            let mut calls = 0;
            let heard = hearer.hear(&ring, most, |question| {
                calls += 1;
                assert!(question <= QUESTION);
            });
            prop_assert_eq!(heard.taken, calls);
            prop_assert!(calls as usize <= most.min(PLACES));
        }
    }
}

#[test]
fn what_was_overwritten_while_it_was_waited_for_is_lost_and_not_taken_for_another() {
    let ring = Questions::default();
    let mut hearer = Hearer::new(&ring);
    ask(&ring, 1);
    ask(&ring, 2);
    // As a second question in the first one's place, whose number is not told yet.
    ring.set_word(0, (PLACES as u64) << 48 | 3);
    let mut got = Vec::new();
    let heard = hearer.hear(&ring, 10, |question| got.push(question));
    assert_eq!((got, heard), (std::vec![2], Heard { taken: 1, lost: 1 }));
}
