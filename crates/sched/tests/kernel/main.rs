//! Outlines carried out by a real kernel, and taken back. Where this host lacks what a test needs, it says so and is skipped.

mod host;
mod worker;

mod alone {
    mod exclusive;
    mod groups;
    mod interrupts;
    mod numbers;
    mod places;
}
