"""Notifications of incidents and episodes to chat, paging services and webhooks.

Each target follows the topics of incidents and episodes with its own consumer group, and commits an offset only after
the receiver has accepted the notification. So no notification is lost while a receiver is down, and targets never wait
for each other. :mod:`~streaming.notify.follower` reads the topics, :mod:`~streaming.notify.notification` decides which
notifications are sent, :mod:`~streaming.notify.requests` formats them, and :mod:`~streaming.notify.sender` sends them.
"""
