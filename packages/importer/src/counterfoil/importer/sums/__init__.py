"""What the customer paid: the amounts of the bills, which of them are sums of others, and the total of each bill."""
