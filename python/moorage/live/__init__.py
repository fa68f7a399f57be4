"""Whatever talks to a real server: the client, the live scheduler, the extender, the twin."""
