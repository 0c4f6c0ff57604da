//! Files that parameters name. Nothing here reads a file: whoever may, passes the bytes on.

use std::any::Any;
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

/// What a file holds, of whatever kind it is: for all parameters that name the file.
pub type Held = Arc<dyn Any + Send + Sync>;

/// A parameter that names a file, whatever kind of file that is.
pub trait File {
    /// Its path, as it was written.
    fn path_mut(&mut self) -> &mut String;
    /// What the file should be: "loss trace".
    fn what(&self) -> &'static str;
    /// Takes the file's bytes. Returns what they hold, which other parameters can [`hold`](Self::hold), too.
    ///
    /// # Errors
    /// What is wrong with them, with its line and column.
    fn read(&mut self, bytes: &[u8]) -> Result<Held, String>;
    /// Takes what another parameter has read. Returns false if that was another kind of file.
    fn hold(&mut self, held: &Held) -> bool;
}

impl<T: Contents> File for FileOf<T> {
    fn path_mut(&mut self) -> &mut String {
        &mut self.path
    }
    fn what(&self) -> &'static str {
        T::WHAT
    }
    fn read(&mut self, bytes: &[u8]) -> Result<Held, String> {
        let contents = Arc::new(T::parse(bytes)?);
        self.contents = Some(Arc::clone(&contents));
        Ok(contents)
    }
    fn hold(&mut self, held: &Held) -> bool {
        let Ok(contents) = Arc::clone(held).downcast::<T>() else { return false };
        self.contents = Some(contents);
        true
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
