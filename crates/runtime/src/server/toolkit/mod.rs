//! A small, typed way to write a server.
//!
//! A tool is a function with an input type; [`Server`] is what stands behind an endpoint. What differs between the
//! revisions is done here: a handler never asks which one its caller speaks.

mod arguments;
mod builder;
mod call;
mod catalog;
mod content;
mod dialogue;
mod effect;
mod failure;
mod lists;
mod mirror;
mod page;
mod prompts;
mod questions;
mod resources;
mod rounds;
mod run;
mod sealed;
mod service;
pub mod tasks;
mod tool;

pub use crate::schema::{Schema, SchemaError};
pub use builder::{BuildError, Builder};
pub use call::Call;
pub use content::{Content, ToolResult};
pub use dialogue::Dialogue;
pub use failure::Failure;
pub use prompts::{Message, Prompt, PromptArguments};
pub use questions::Question;
pub use resources::{Contents, Resource, Template, Variables};
pub use service::Server;
pub use tasks::{TaskOptions, TaskPolicy, TaskSupport};
pub use tool::{DefinitionError, Tool};
