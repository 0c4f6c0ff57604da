//! Parameters that a scenario gives by name, out of a list of which most are left out.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use warpline_core::parameter::{Field, Given, Parameters};

use super::component;

/// The parameters that are given, each with its value as it is written from now on: "0.5s" is "500ms".
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GivenParameters(Vec<(&'static str, Given)>);

impl GivenParameters {
    /// Reads a table of `parameters`, in their order.
    ///
    /// # Errors
    /// A key that is none of them, or a value of another type.
    pub(crate) fn read(parameters: &mut dyn Parameters, table: &Map<String, Value>) -> Result<Self, String> {
        let mut read = GivenParameters::default();
        let mut fields = parameters.fields();
        for Field { name, value: own, .. } in &mut fields {
            let Some(value) = table.get(*name).filter(|value| !value.is_null()) else { continue };
            let given = component::given(value);
            if !own.take(&given) {
                return Err(format!("`{name}` is {given}; allowed: {}", own.kind()));
            }
            read.0.extend(own.given().map(|given| (*name, given)));
        }
        match table.keys().find(|key| !fields.iter().any(|field| field.name == **key)) {
            Some(key) => Err(format!("there is no parameter `{key}`")),
            None => Ok(read),
        }
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// The value of one.
    pub(crate) fn get(&self, name: &str) -> Option<&Given> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, given)| given)
    }

    /// Sets those of `parameters` that are given.
    pub(crate) fn put_into(&self, parameters: &mut dyn Parameters) {
        for field in parameters.fields() {
            if let Some(given) = self.get(field.name) {
                field.value.take(given);
            }
        }
    }
}

impl Serialize for GivenParameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, given)| (name, component::value(given.clone()))))
    }
}
