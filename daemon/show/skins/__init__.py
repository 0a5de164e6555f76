"""The forms in which what is shown is written: HTML, …"""
