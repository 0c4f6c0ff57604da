//! IP addresses as scenarios write them.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address<A>(pub A);

macro_rules! address {
    ($address:ty, $name:literal, $format:literal, $description:literal, $example:literal) => {
        impl Serialize for Address<$address> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0.to_string())
            }
        }
        impl<'de> Deserialize<'de> for Address<$address> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'_, str>::deserialize(deserializer)?;
                text.parse().map(Address).map_err(|_| D::Error::custom(concat!("expected ", $description)))
            }
        }
        impl JsonSchema for Address<$address> {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn schema_id() -> Cow<'static, str> {
                concat!("warpline::", $name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": $format, "description": $description, "examples": [$example] })
            }
        }
    };
}

address!(Ipv4Addr, "Ipv4Address", "ipv4", "An IPv4 address.", "192.0.2.1");
address!(Ipv6Addr, "Ipv6Address", "ipv6", "An IPv6 address.", "2001:db8::1");
