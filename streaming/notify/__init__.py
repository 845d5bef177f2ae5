"""Notifications of incidents and episodes to chat, paging services and webhooks.

Each target follows the topics of incidents and episodes with a consumer group of its own, and commits an offset
only after its receiver took the notification. So nothing is lost while a receiver is down, and targets never wait
for each other. :mod:`~streaming.notify.notification` decides what is sent, :mod:`~streaming.notify.requests` how it
is written, :mod:`~streaming.notify.sender` sends it, and :mod:`~streaming.notify.follower` reads the topics.
"""
