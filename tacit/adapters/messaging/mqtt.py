"""``Announcer`` on an MQTT 5 broker.

One connection per announcer, in the background: a new random client id each time, a clean session, no messages queued
for us while we are disconnected. The broker retains the newest publication per topic; it is sent again after each
reconnection, since a broker may have lost it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass, field

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tacit.adapters.messaging.memory import Latest, check_announcement
from tacit.adapters.messaging.outage import Outage, TellOutage, ignore_report
from tacit.adapters.network.happy_eyeballs import open_socket
from tacit.adapters.network.tls import LiveContext
from tacit.adapters.waiting import first_of
from tacit.announcer import MAX_ANNOUNCEMENT, Announcement
from tacit.ports import Clock, Entropy

ANSWER_SECONDS = 5.0
CLOSE_SECONDS = 8.0
KEEPALIVE_SECONDS = 30
LARGEST_PACKET = 1024
QUEUE = 64
AT_LEAST_ONCE = 1


@dataclass(frozen=True)
class Broker:
    """The address of a broker and the credentials for it; anonymous without a user name."""

    host: str
    port: int
    tls: LiveContext | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)


class MqttAnnouncer:
    """Announcements through one broker. Connects when opened, and reconnects whenever the broker is back."""

    def __init__(self, broker: Broker, clock: Clock, entropy: Entropy, report: TellOutage = ignore_report) -> None:
        self.outage = Outage(clock, entropy, report)
        self._broker = broker
        self._clock = clock
        self._entropy = entropy
        self._published: dict[str, bytes] = {}
        self._unsent: dict[str, bytes] = {}
        self._heard: dict[str, Announcement] = {}
        self._subscriptions: list[Latest] = []
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect in the background, and again after every outage; a second call changes nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Send what is pending if the broker accepts it within ``CLOSE_SECONDS``, disconnect, and end every
        subscription."""
        self._stopping.set()
        self._changed.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait({task}, timeout=CLOSE_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for subscription in self._subscriptions:
            subscription.close()

    def publish(self, topic: str, payload: bytes) -> None:
        """Send the payload as soon as there is a connection, and after every reconnection; retained by the broker."""
        check_announcement(topic, payload)
        self._published[topic] = self._unsent[topic] = payload
        self._changed.set()

    def subscribe(self, *topics: str) -> Latest:
        """Subscribe to ``topics``; the newest announcements heard earlier come first."""
        subscription = Latest(topics)
        self._subscriptions = [one for one in self._subscriptions if not one.closed]
        self._subscriptions.append(subscription)
        for announcement in self._heard.values():
            subscription.offer(announcement)
        self._changed.set()
        return subscription

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    opened = await open_socket(self._broker.host, self._broker.port)
                with opened:  # the client's, once it is connected; closing it again does nothing
                    async with self._client(opened) as client:
                        await self._session(client)
            except Exception as error:  # announcements outlive every error of one session
                self.outage.failed(error)
                await first_of(self._clock.sleep(self.outage.pause()), self._stopping.wait())

    def _client(self, opened: socket.socket) -> aiomqtt.Client:
        """A client on the connection ``opened``."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.MaximumPacketSize = LARGEST_PACKET
        broker = self._broker
        client = aiomqtt.Client(
            broker.host,
            broker.port,
            username=broker.username,
            password=broker.password,
            tls_context=None if broker.tls is None else broker.tls.current(),
            identifier=self._entropy(8).hex(),
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=True,
            properties=properties,
            timeout=ANSWER_SECONDS,
            keepalive=KEEPALIVE_SECONDS,
            max_queued_incoming_messages=QUEUE,
            logger=_quiet_logger(),
        )
        opened.settimeout(ANSWER_SECONDS)  # the client greets in a thread, and waits there
        client._client._create_socket_connection = lambda: opened  # type: ignore[method-assign]
        return client

    async def _session(self, client: aiomqtt.Client) -> None:
        """Run one session: until the connection is lost (raises) or the announcer is closed."""
        tasks = {asyncio.create_task(self._send(client)), asyncio.create_task(self._listen(client))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _send(self, client: aiomqtt.Client) -> None:
        """Send pending publications and subscriptions, each time something has changed."""
        self._unsent = dict(self._published)
        asked: set[str] = set()
        while True:
            stopping = self._stopping.is_set()
            self._changed.clear()
            for topic in self._wanted_topics() - asked:
                await client.subscribe(topic, qos=AT_LEAST_ONCE)
                asked.add(topic)
            while self._unsent:
                topic, payload = next(iter(self._unsent.items()))
                await client.publish(topic, payload, qos=AT_LEAST_ONCE, retain=True)
                if self._unsent.get(topic) == payload:
                    del self._unsent[topic]
            self.outage.over()
            if stopping:
                return
            await self._changed.wait()

    def _wanted_topics(self) -> set[str]:
        return {topic for one in self._subscriptions if not one.closed for topic in one.topics}

    async def _listen(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            payload = message.payload
            if isinstance(payload, bytes) and len(payload) <= MAX_ANNOUNCEMENT:
                announcement = Announcement(message.topic.value, payload)
                self._heard[announcement.topic] = announcement
                for subscription in self._subscriptions:
                    subscription.offer(announcement)


def _quiet_logger() -> logging.Logger:
    """A logger that writes nothing, for the client library, whose lines contain addresses; outages are reported by this
    module."""
    logger = logging.getLogger("tacit.mqtt")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
