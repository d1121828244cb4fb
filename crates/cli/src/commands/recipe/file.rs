//! The table `[recipes]` of the file of a repository.

use std::path::PathBuf;

use jobhall_core::query::PipeHead;
use jobhall_protocol::PutRecipe;

use super::FileArgs;
use crate::commands::query;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::worker_file;

/// The recipes of a file, by key, with the canonical texts of their queries.
#[derive(Debug, Default)]
pub struct RecipeFile {
    pub path: Option<PathBuf>,
    pub recipes: Vec<(String, PutRecipe)>,
}

impl RecipeFile {
    /// Reads the file that was given, or else that of the repository; nothing if there is none.
    pub fn read(args: &FileArgs) -> Outcome<RecipeFile> {
        let here = std::env::current_dir().ok();
        let found = || here.and_then(|here| worker_file::project::find(&here));
        let Some(path) = args.file.clone().or_else(found) else { return Ok(RecipeFile::default()) };
        let lines = worker_file::parse(&path)?.recipes;
        let mut recipes = Vec::with_capacity(lines.len());
        for (key, line) in lines {
            let table = line.table();
            let text = canonical(&table.query)
                .map_err(|failure| failure.while_doing(&format!("{}: recipes.{key:?}", path.display())))?;
            recipes.push((key, PutRecipe { query: text, ..table }));
        }
        Ok(RecipeFile { path: Some(path), recipes })
    }

    /// Sends the recipes to the server. Those that are as they were change nothing.
    pub async fn send(&self, context: &Context) -> Outcome<()> {
        let client = context.client()?;
        for (key, recipe) in &self.recipes {
            client.put_recipe(key, recipe).await.map_err(query::failed)?;
        }
        if let Some(path) = self.path.as_ref().filter(|_| !self.recipes.is_empty()) {
            context.output.detail(&format!("sent {} recipes of {}", self.recipes.len(), path.display()));
        }
        Ok(())
    }

    /// The keys.
    pub fn keys(&self) -> Vec<String> {
        self.recipes.iter().map(|(key, _)| key.clone()).collect()
    }
}

/// The canonical text of the query of a recipe, which cannot begin with local data.
pub fn canonical(text: &str) -> Outcome<String> {
    match query::parse(text)? {
        (Some(PipeHead::File(_) | PipeHead::Stdin), _) => {
            let what = format!("a recipe cannot begin with local data: {text}");
            Err(Failure::usage(what).fix("put the data under a key, and begin with source:KEY"))
        }
        (Some(PipeHead::Source(_)) | None, query) => Ok(query.text()),
    }
}
