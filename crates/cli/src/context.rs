//! The context of a command: settings, output and client.

use std::path::Path;

use jobhall_client::Client;

use crate::args::{Cli, Globals};
use crate::failure::Outcome;
use crate::output::Output;
use crate::settings::{Given, Settings};

/// The context of a command.
#[derive(Clone, Debug)]
pub struct Context {
    pub settings: Settings,
    pub output: Output,
}

impl Context {
    /// Created from the command line, the environment and the files.
    pub fn new(cli: &Cli) -> Outcome<Context> {
        let settings = Settings::resolve(&Given::from_process(cli.layer()))?;
        // Programs that read the log must not get text messages in between.
        let quiet = cli.globals.quiet || (cli.log().is_some() && settings.log_format.value == "json");
        let globals = Globals { quiet, ..cli.globals.clone() };
        let output = Output::new(&globals, &settings.color.value);
        Ok(Context { settings, output })
    }

    /// The same for a server on this data directory.
    pub fn at(&self, url: &str, token: &str, data: &Path) -> Context {
        Context { settings: self.settings.at(url, token, data), output: self.output.clone() }
    }

    /// A client of the configured server.
    pub fn client(&self) -> Outcome<Client> {
        let token = self.settings.token.as_ref().map(|token| token.value.as_str());
        let server = self.settings.server()?;
        self.output.detail(&format!("server: {} ({})", server.value, server.origin));
        Ok(Client::trusting(&server.value, token, self.settings.trust())?)
    }
}
