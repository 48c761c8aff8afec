//! Values that are one of several words.

/// A value that is one of several words.
#[derive(Debug)]
pub struct Keywords<T: 'static> {
    /// Name of the value and its plural, e.g. `("engine", "engines")`.
    pub noun: (&'static str, &'static str),
    /// Words of this version.
    pub now: &'static [(&'static str, T)],
    /// Words reserved for a later version.
    pub later: &'static [&'static str],
}

impl<T: Copy> Keywords<T> {
    /// Returns the words of this version.
    pub fn names(&self) -> Vec<&'static str> {
        self.now.iter().map(|(name, _)| *name).collect()
    }

    /// Returns the meaning of a word.
    ///
    /// # Errors
    /// Why the word is invalid, and the words that are valid.
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
