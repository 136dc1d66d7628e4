"""How those who wait look together, for asyncio."""
