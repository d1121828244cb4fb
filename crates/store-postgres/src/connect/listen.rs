//! A connection that only listens.

use std::pin::pin;

use futures_util::{StreamExt as _, stream};
use tokio_postgres::{AsyncMessage, NoTls};

use super::Connector;
use crate::trouble::Trouble;

impl Connector {
    /// Listens on a channel until the connection ends. `heard` is called for every word, and once when the listening has
    /// begun: what was said before is not heard.
    pub(crate) async fn listen(&self, channel: &'static str, heard: impl Fn()) -> Result<(), Trouble> {
        macro_rules! listen {
            ($tls:expr) => {{
                let (client, mut connection) = self.config.connect($tls).await?;
                let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
                let command = format!("LISTEN {channel}");
                let mut begins = pin!(client.batch_execute(&command));
                let mut begun = false;
                loop {
                    tokio::select! {
                        listening = &mut begins, if !begun => {
                            listening?;
                            begun = true;
                            heard();
                        }
                        message = messages.next() => match message {
                            Some(Ok(AsyncMessage::Notification(_))) => heard(),
                            Some(Ok(_)) => {}
                            Some(Err(error)) => return Err(error.into()),
                            None => return Ok(()),
                        },
                    }
                }
            }};
        }
        match &self.tls {
            Some(tls) => listen!(tls.clone()),
            None => listen!(NoTls),
        }
    }
}
