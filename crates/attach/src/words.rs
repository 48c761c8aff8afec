//! Values that are one word out of several.

/// A value that is one word out of several.
#[derive(Debug)]
pub struct Words<T: 'static> {
    /// What such a word is called, with its plural, e.g. `("engine", "engines")`.
    pub noun: (&'static str, &'static str),
    /// The words of this version.
    pub now: &'static [(&'static str, T)],
    /// Words that a later version will know.
    pub later: &'static [&'static str],
}

impl<T: Copy> Words<T> {
    /// The words of this version.
    pub fn names(&self) -> Vec<&'static str> {
        self.now.iter().map(|(name, _)| *name).collect()
    }

    /// The meaning of a word.
    ///
    /// # Errors
    /// What is wrong with it, and which words there are.
    pub fn find(&self, word: &str) -> Result<T, String> {
        let known = self.now.iter().find(|(name, _)| *name == word);
        known.map(|(_, meaning)| *meaning).ok_or_else(|| self.fault(word))
    }

    fn fault(&self, word: &str) -> String {
        let (one, many) = self.noun;
        let names = self.names().join(", ");
        if self.later.contains(&word) {
            format!("{one} {word:?} is not in this version; {many}: {names}")
        } else {
            format!("{word:?} is no {one}; {many}: {names}")
        }
    }
}
