//! Files that parameters name. Nothing here reads a file: whoever may, passes the bytes on.

use std::fmt::Debug;
use std::sync::Arc;

use super::{Given, Kind, Value};

/// What a file of some kind holds.
pub trait Contents: Sized + Debug + PartialEq + Send + Sync + 'static {
    /// What such a file is: "loss trace".
    const WHAT: &'static str;

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// What is wrong, with its line and column.
    fn parse(bytes: &[u8]) -> Result<Self, String>;
}

/// A file by its path, and what it holds once that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct FileOf<T> {
    path: String,
    contents: Option<Arc<T>>,
}

impl<T> FileOf<T> {
    /// The file at a path, not read yet.
    pub fn at(path: impl Into<String>) -> Self {
        FileOf { path: path.into(), contents: None }
    }
    /// A file that holds this, wherever it came from.
    pub fn holding(contents: T) -> Self {
        FileOf { path: String::new(), contents: Some(Arc::new(contents)) }
    }
    /// What it holds; nothing before it has been read.
    pub fn contents(&self) -> Option<&Arc<T>> {
        self.contents.as_ref()
    }
    /// Its path, as it was written.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// A parameter that names a file, whatever kind of file that is.
pub trait File {
    /// Its path, as it was written.
    fn path_mut(&mut self) -> &mut String;
    /// What the file should be: "loss trace".
    fn what(&self) -> &'static str;
    /// Takes the file's bytes.
    ///
    /// # Errors
    /// What is wrong with them, with its line and column.
    fn read(&mut self, bytes: &[u8]) -> Result<(), String>;
}

impl<T: Contents> File for FileOf<T> {
    fn path_mut(&mut self) -> &mut String {
        &mut self.path
    }
    fn what(&self) -> &'static str {
        T::WHAT
    }
    fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.contents = Some(Arc::new(T::parse(bytes)?));
        Ok(())
    }
}

impl<T: Contents> Value for FileOf<T> {
    fn kind(&self) -> Kind {
        Kind::File
    }
    fn given(&self) -> Option<Given> {
        Some(Given::Text(self.path.clone()))
    }
    fn take(&mut self, given: &Given) -> bool {
        match given {
            Given::Text(path) if !path.is_empty() => *self = FileOf::at(path.clone()),
            _ => return false,
        }
        true
    }
    fn file(&mut self) -> Option<&mut dyn File> {
        Some(self)
    }
}
