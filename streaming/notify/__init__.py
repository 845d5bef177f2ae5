"""Notifications of incidents and episodes to chat, paging services and webhooks.

Each target has its own consumer group, which commits an offset only after the receiver has accepted the notification.
So no notification is lost while a receiver is down, and targets never wait for each other.
"""
