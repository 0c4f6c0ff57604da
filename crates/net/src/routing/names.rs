//! Names, numbered in the order in which they are added.

use std::fmt;
use std::ops::Index;

use hashbrown::HashTable;
use warpline_core::random::hash;

/// Names, each once, numbered from 0 in the order of addition. A name takes its own letters and some ten bytes more.
#[derive(Clone, Default)]
pub struct Names {
    /// All names, one after the other.
    text: String,
    /// Where each of them ends.
    ends: Vec<u32>,
    /// Their numbers, by the hashes of the names. Nothing depends on its order.
    numbers: HashTable<u32>,
}

impl Names {
    /// The number of `name`, which is added if necessary.
    ///
    /// # Panics
    /// If the names together have more than 4 GB.
    pub fn add(&mut self, name: &str) -> u32 {
        if let Some(known) = self.find(name) {
            return known;
        }
        let number = self.ends.len() as u32;
        self.text.push_str(name);
        self.ends.push(u32::try_from(self.text.len()).expect("at most 4 GB of names"));
        let Names { text, ends, numbers } = self;
        numbers.insert_unique(hash(name), number, |&number| hash(at(text, ends, number as usize)));
        number
    }

    /// The number of `name`, if there is such a name.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.numbers.find(hash(name), |&number| &self[number as usize] == name).copied()
    }

    /// The name with this number, if there is one.
    pub fn get(&self, number: usize) -> Option<&str> {
        (number < self.len()).then(|| &self[number])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All names, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.len()).map(|number| &self[number])
    }
}

/// The name with this number.
fn at<'a>(text: &'a str, ends: &[u32], number: usize) -> &'a str {
    let begin = if number == 0 { 0 } else { ends[number - 1] };
    &text[begin as usize..ends[number] as usize]
}

impl Index<usize> for Names {
    type Output = str;

    fn index(&self, number: usize) -> &str {
        at(&self.text, &self.ends, number)
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_number() {
        let mut names = Names::default();
        let texts: Vec<String> = (0..1000).map(|n| format!("host.{}", n % 700)).collect();
        let numbers: Vec<u32> = texts.iter().map(|text| names.add(text)).collect();
        assert!(numbers.iter().enumerate().all(|(n, &number)| number as usize == n % 700));
        assert_eq!((names.len(), &names[0], &names[699], names.get(700)), (700, "host.0", "host.699", None));
        assert_eq!((names.find("host.12"), names.find("host.700"), names.find("")), (Some(12), None, None));
        assert_eq!(names.add(""), 700);
        assert_eq!((names.find(""), names.iter().last()), (Some(700), Some("")));
    }
}
