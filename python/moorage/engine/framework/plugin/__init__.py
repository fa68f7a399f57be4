"""The interface of plugins: extension points, statuses, cluster events and handles."""
