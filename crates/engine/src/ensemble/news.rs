//! What is told of members.

/// Something that happened to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// One line about it; it goes on.
    Told(String),
    /// It forwards nothing any more and did not come back: it is to be started anew, because of this.
    Silent(String),
}
