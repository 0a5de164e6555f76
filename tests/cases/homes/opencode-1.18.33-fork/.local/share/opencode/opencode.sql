PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE `event_sequence` (
          `aggregate_id` text PRIMARY KEY,
          `seq` integer NOT NULL,
          `owner_id` text
        );
INSERT INTO event_sequence VALUES('ses_de87b1dbaffepulvsha8AuJdBv',29,NULL);
INSERT INTO event_sequence VALUES('ses_de87ad2e0ffeXXe7jG7NvEtHlP',27,NULL);
CREATE TABLE `event` (
          `id` text PRIMARY KEY,
          `aggregate_id` text NOT NULL,
          `seq` integer NOT NULL,
          `type` text NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_event_aggregate_id_event_sequence_aggregate_id_fk` FOREIGN KEY (`aggregate_id`) REFERENCES `event_sequence`(`aggregate_id`) ON DELETE CASCADE
        );
INSERT INTO event VALUES('evt_21784e246001r98RauMhmr2LId','ses_de87b1dbaffepulvsha8AuJdBv',0,'session.created.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"ses_de87b1dbaffepulvsha8AuJdBv","slug":"silent-wolf","projectID":"global","directory":"/tmp/ws","path":"","cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"title":"Parent","version":"1.18.33","time":{"created":1795690914373,"updated":1795690914373}}}');
INSERT INTO event VALUES('evt_21784e3b9001j8EhYjJ3kp8Ptu','ses_de87b1dbaffepulvsha8AuJdBv',1,'session.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"ses_de87b1dbaffepulvsha8AuJdBv","slug":"silent-wolf","projectID":"global","directory":"/tmp/ws","path":"","cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"title":"Parent","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690914373,"updated":1795690914741}}}');
INSERT INTO event VALUES('evt_21784e3d7001MFlRZEPqjM2EJy','ses_de87b1dbaffepulvsha8AuJdBv',2,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_21784e3b50013at7q6UHAWrCRw","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"user","time":{"created":1795690914741},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_21784fadf001Aid5H9xywCQj2C','ses_de87b1dbaffepulvsha8AuJdBv',3,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_21784e3cd001sI7888toU3hNDd","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_21784e3b50013at7q6UHAWrCRw","type":"text","text":"[[S0]] hello"},"time":1795690920671}');
INSERT INTO event VALUES('evt_21784fb02001CYSw73hhdvP7RX','ses_de87b1dbaffepulvsha8AuJdBv',4,'session.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"ses_de87b1dbaffepulvsha8AuJdBv","slug":"silent-wolf","projectID":"global","directory":"/tmp/ws","path":"","cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"title":"Parent","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690914373,"updated":1795690920705}}}');
INSERT INTO event VALUES('evt_21784fba20014rV6u6Zc5EqRIo','ses_de87b1dbaffepulvsha8AuJdBv',5,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_21784fba1001CVJIRk6VbcFG7P","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"assistant","time":{"created":1795690920865},"parentID":"msg_21784e3b50013at7q6UHAWrCRw","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}}}');
INSERT INTO event VALUES('evt_2178506af001V7znvtY3Ly6SpW','ses_de87b1dbaffepulvsha8AuJdBv',6,'session.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"ses_de87b1dbaffepulvsha8AuJdBv","slug":"silent-wolf","projectID":"global","directory":"/tmp/ws","path":"","summary":{"additions":0,"deletions":0,"files":0},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"title":"Parent","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690914373,"updated":1795690923592}}}');
INSERT INTO event VALUES('evt_2178506d7001s8LvngSYdr2ZNK','ses_de87b1dbaffepulvsha8AuJdBv',7,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_21784e3b50013at7q6UHAWrCRw","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"user","time":{"created":1795690914741},"summary":{"diffs":[]},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_217852060001rrwxIH0AINUutU','ses_de87b1dbaffepulvsha8AuJdBv',8,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_21785205f001rVte2uwvdHOZiT","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_21784fba1001CVJIRk6VbcFG7P","type":"step-start","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904"},"time":1795690930272}');
INSERT INTO event VALUES('evt_2178520980010bGAv6YFh1GrBM','ses_de87b1dbaffepulvsha8AuJdBv',9,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_2178520970014HY2sGfvMSDN1u","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_21784fba1001CVJIRk6VbcFG7P","type":"text","text":"","time":{"start":1795690930327}},"time":1795690930327}');
INSERT INTO event VALUES('evt_2178520a5001YNW404Yd1j3N33','ses_de87b1dbaffepulvsha8AuJdBv',10,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_2178520970014HY2sGfvMSDN1u","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_21784fba1001CVJIRk6VbcFG7P","type":"text","text":"Hello.","time":{"start":1795690930327,"end":1795690930341}},"time":1795690930341}');
INSERT INTO event VALUES('evt_21785240b0018ONOAffiycvcX6','ses_de87b1dbaffepulvsha8AuJdBv',11,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_217852406001SwkojChIagB0nZ","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_21784fba1001CVJIRk6VbcFG7P","type":"step-finish","reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}}},"time":1795690931210}');
INSERT INTO event VALUES('evt_217852419001YM350EWNjF1DTw','ses_de87b1dbaffepulvsha8AuJdBv',12,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_21784fba1001CVJIRk6VbcFG7P","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"assistant","time":{"created":1795690920865},"parentID":"msg_21784e3b50013at7q6UHAWrCRw","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"finish":"stop"}}');
INSERT INTO event VALUES('evt_217852507001He4yGZenZumM8z','ses_de87b1dbaffepulvsha8AuJdBv',13,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_21784fba1001CVJIRk6VbcFG7P","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"assistant","time":{"created":1795690920865,"completed":1795690931463},"parentID":"msg_21784e3b50013at7q6UHAWrCRw","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"finish":"stop"}}');
INSERT INTO event VALUES('evt_217852564001PK3VNwWzPiUP8T','ses_de87b1dbaffepulvsha8AuJdBv',14,'session.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"ses_de87b1dbaffepulvsha8AuJdBv","slug":"silent-wolf","projectID":"global","directory":"/tmp/ws","path":"","summary":{"additions":0,"deletions":0,"files":0},"cost":0.00153,"tokens":{"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"title":"Parent","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690914373,"updated":1795690931551}}}');
INSERT INTO event VALUES('evt_2178525d0001IeLMWMJ2VlV9j2','ses_de87b1dbaffepulvsha8AuJdBv',15,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_2178525c40013dFk4FuCvbTp2d","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"user","time":{"created":1795690931652},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_2178525e2001MorSiv4ye3sHSp','ses_de87b1dbaffepulvsha8AuJdBv',16,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_2178525cf001voh9O4DHsKQqOy","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_2178525c40013dFk4FuCvbTp2d","type":"text","text":"[[S1]] again"},"time":1795690931681}');
INSERT INTO event VALUES('evt_2178526160011hvmji1RvUjEkA','ses_de87b1dbaffepulvsha8AuJdBv',17,'session.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"ses_de87b1dbaffepulvsha8AuJdBv","slug":"silent-wolf","projectID":"global","directory":"/tmp/ws","path":"","summary":{"additions":0,"deletions":0,"files":0},"cost":0.00153,"tokens":{"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"title":"Parent","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690914373,"updated":1795690931713}}}');
INSERT INTO event VALUES('evt_2178526f5001h7h7pEcYN4TfFs','ses_de87b1dbaffepulvsha8AuJdBv',18,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_2178526f500176NgYJ25MN4ql1","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"assistant","time":{"created":1795690931957},"parentID":"msg_2178525c40013dFk4FuCvbTp2d","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}}}');
INSERT INTO event VALUES('evt_21785276e001TDRoRs1c81EDnM','ses_de87b1dbaffepulvsha8AuJdBv',19,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_21784e3b50013at7q6UHAWrCRw","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"user","time":{"created":1795690914741},"summary":{"diffs":[]},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_217852910001xBvOe5MxqGVIk9','ses_de87b1dbaffepulvsha8AuJdBv',20,'session.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"ses_de87b1dbaffepulvsha8AuJdBv","slug":"silent-wolf","projectID":"global","directory":"/tmp/ws","path":"","summary":{"additions":0,"deletions":0,"files":0},"cost":0.00153,"tokens":{"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"title":"Parent","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690914373,"updated":1795690932494}}}');
INSERT INTO event VALUES('evt_217852915001d0KTc0IPNNswyQ','ses_de87b1dbaffepulvsha8AuJdBv',21,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_2178525c40013dFk4FuCvbTp2d","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"user","time":{"created":1795690931652},"summary":{"diffs":[]},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_2178529ba001B7H7q7E6ap2tF5','ses_de87b1dbaffepulvsha8AuJdBv',22,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_2178529b9001VjbXFNI0GG4MaB","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_2178526f500176NgYJ25MN4ql1","type":"step-start","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904"},"time":1795690932665}');
INSERT INTO event VALUES('evt_2178529c3001Z0oxx9lKrpSOeP','ses_de87b1dbaffepulvsha8AuJdBv',23,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_2178529c3001zCcYjD9nOA9kNL","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_2178526f500176NgYJ25MN4ql1","type":"text","text":"","time":{"start":1795690932675}},"time":1795690932675}');
INSERT INTO event VALUES('evt_217852a1a001tgWB8nmz3Qk4MJ','ses_de87b1dbaffepulvsha8AuJdBv',24,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_2178529c3001zCcYjD9nOA9kNL","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_2178526f500176NgYJ25MN4ql1","type":"text","text":"Again.","time":{"start":1795690932675,"end":1795690932762}},"time":1795690932762}');
INSERT INTO event VALUES('evt_217852bb2001TsFeAyl0ESuQDR','ses_de87b1dbaffepulvsha8AuJdBv',25,'message.part.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","part":{"id":"prt_217852bb2001XTTGGzozyO4PAs","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","messageID":"msg_2178526f500176NgYJ25MN4ql1","type":"step-finish","reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}}},"time":1795690933170}');
INSERT INTO event VALUES('evt_217852bb6001J1iWc6SNrQZmzc','ses_de87b1dbaffepulvsha8AuJdBv',26,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_2178526f500176NgYJ25MN4ql1","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"assistant","time":{"created":1795690931957},"parentID":"msg_2178525c40013dFk4FuCvbTp2d","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"finish":"stop"}}');
INSERT INTO event VALUES('evt_217852c6d001Xyzp6H8s9tNEib','ses_de87b1dbaffepulvsha8AuJdBv',27,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_2178526f500176NgYJ25MN4ql1","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"assistant","time":{"created":1795690931957,"completed":1795690933356},"parentID":"msg_2178525c40013dFk4FuCvbTp2d","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"finish":"stop"}}');
INSERT INTO event VALUES('evt_217852d100018M3qLbTVNY5iKm','ses_de87b1dbaffepulvsha8AuJdBv',28,'session.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"ses_de87b1dbaffepulvsha8AuJdBv","slug":"silent-wolf","projectID":"global","directory":"/tmp/ws","path":"","summary":{"additions":0,"deletions":0,"files":0},"cost":0.00306,"tokens":{"input":600,"output":70,"reasoning":14,"cache":{"read":1800,"write":0}},"title":"Parent","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690914373,"updated":1795690933519}}}');
INSERT INTO event VALUES('evt_217852d20001m7HeB0O6NKv4E3','ses_de87ad2e0ffeXXe7jG7NvEtHlP',0,'session.created.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","slug":"witty-harbor","projectID":"global","directory":"/tmp/ws","path":"","cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"title":"Parent (fork #1)","version":"1.18.33","time":{"created":1795690933535,"updated":1795690933535}}}');
INSERT INTO event VALUES('evt_217852d230014uwHMvb8im2Wvk','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217852d23001fObnlsUhjAlYv9","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"user","time":{"created":1795690914741},"summary":{"diffs":[]},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_217852d26001zeXwJUPelNWx1T','ses_de87ad2e0ffeXXe7jG7NvEtHlP',2,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852d25001nbnirD6bXj2Wzd","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852d23001fObnlsUhjAlYv9","type":"text","text":"[[S0]] hello"},"time":1795690933542}');
INSERT INTO event VALUES('evt_217852d28001qopOaBdNUt59Lr','ses_de87ad2e0ffeXXe7jG7NvEtHlP',3,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217852d280011OPin2wiBnqcY7","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"assistant","time":{"created":1795690920865,"completed":1795690931463},"parentID":"msg_217852d23001fObnlsUhjAlYv9","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"finish":"stop"}}');
INSERT INTO event VALUES('evt_217852d39001cns51al6VIMc4p','ses_de87ad2e0ffeXXe7jG7NvEtHlP',4,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852d39001yIcn8Xm37N6aTx","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852d280011OPin2wiBnqcY7","type":"step-start","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904"},"time":1795690933561}');
INSERT INTO event VALUES('evt_217852d4e001hLVYEbSSavsVRW','ses_de87ad2e0ffeXXe7jG7NvEtHlP',5,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852d4d001PGAV1rQsk5ozVp","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852d280011OPin2wiBnqcY7","type":"text","text":"Hello.","time":{"start":1795690930327,"end":1795690930341}},"time":1795690933582}');
INSERT INTO event VALUES('evt_217852dff001kr7dh5hJKbz0Oi','ses_de87ad2e0ffeXXe7jG7NvEtHlP',6,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852dff001kd2N8HoI5AcmCR","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852d280011OPin2wiBnqcY7","type":"step-finish","reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}}},"time":1795690933759}');
INSERT INTO event VALUES('evt_217852e02001vOTMYKFJiHm9z2','ses_de87ad2e0ffeXXe7jG7NvEtHlP',7,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217852e02001zqbmhYur6uRH4L","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"user","time":{"created":1795690931652},"summary":{"diffs":[]},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_217852e04001iSdTHkJM4gplfm','ses_de87ad2e0ffeXXe7jG7NvEtHlP',8,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852e0400107sQZJknAaya6C","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852e02001zqbmhYur6uRH4L","type":"text","text":"[[S1]] again"},"time":1795690933764}');
INSERT INTO event VALUES('evt_217852e090013375T5L2ZqmE9M','ses_de87ad2e0ffeXXe7jG7NvEtHlP',9,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217852e080010NycyrIUqMDvGl","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"assistant","time":{"created":1795690931957,"completed":1795690933356},"parentID":"msg_217852e02001zqbmhYur6uRH4L","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"finish":"stop"}}');
INSERT INTO event VALUES('evt_217852e170016Y2R8lx6ICJknP','ses_de87ad2e0ffeXXe7jG7NvEtHlP',10,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852e17001p6ubXwrJemXju5","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852e080010NycyrIUqMDvGl","type":"step-start","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904"},"time":1795690933783}');
INSERT INTO event VALUES('evt_217852e2a001AvOAbfnOngY6R2','ses_de87ad2e0ffeXXe7jG7NvEtHlP',11,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852e19001sGRtbYgfCjwMo3","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852e080010NycyrIUqMDvGl","type":"text","text":"Again.","time":{"start":1795690932675,"end":1795690932762}},"time":1795690933801}');
INSERT INTO event VALUES('evt_217852efb001iFBzmSHLma3nsi','ses_de87ad2e0ffeXXe7jG7NvEtHlP',12,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852efb001c8bXxE6ENqp21A","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852e080010NycyrIUqMDvGl","type":"step-finish","reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}}},"time":1795690934011}');
INSERT INTO event VALUES('evt_217852f08001Mw5GgoSnohssrS','ses_de87b1dbaffepulvsha8AuJdBv',29,'message.updated.1','{"sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","info":{"id":"msg_2178525c40013dFk4FuCvbTp2d","sessionID":"ses_de87b1dbaffepulvsha8AuJdBv","role":"user","time":{"created":1795690931652},"summary":{"diffs":[]},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_217852fba001soet3SibL0pIAr','ses_de87ad2e0ffeXXe7jG7NvEtHlP',13,'session.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","slug":"witty-harbor","projectID":"global","directory":"/tmp/ws","path":"","cost":0.00306,"tokens":{"input":600,"output":70,"reasoning":14,"cache":{"read":1800,"write":0}},"title":"Parent (fork #1)","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690933535,"updated":1795690934200}}}');
INSERT INTO event VALUES('evt_217852fec001eeJIjvykGgwIJT','ses_de87ad2e0ffeXXe7jG7NvEtHlP',14,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217852fb8001wI7BIQBYv5YNdp","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"user","time":{"created":1795690934200},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_217852ff5001zXwsbu1v9M6vh0','ses_de87ad2e0ffeXXe7jG7NvEtHlP',15,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_217852fd9001MG2gvdzyHq6VjA","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217852fb8001wI7BIQBYv5YNdp","type":"text","text":"[[S2]] third"},"time":1795690934261}');
INSERT INTO event VALUES('evt_217852ffd001hs3n3BiXUlMG77','ses_de87ad2e0ffeXXe7jG7NvEtHlP',16,'session.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","slug":"witty-harbor","projectID":"global","directory":"/tmp/ws","path":"","cost":0.00306,"tokens":{"input":600,"output":70,"reasoning":14,"cache":{"read":1800,"write":0}},"title":"Parent (fork #1)","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690933535,"updated":1795690934268}}}');
INSERT INTO event VALUES('evt_217853016001iUxxrzQxrwXjEM','ses_de87ad2e0ffeXXe7jG7NvEtHlP',17,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217853016001Ov5MKpGBO194U0","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"assistant","time":{"created":1795690934294},"parentID":"msg_217852fb8001wI7BIQBYv5YNdp","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}}}');
INSERT INTO event VALUES('evt_21785316e0015xBcmTCbmEg3vx','ses_de87ad2e0ffeXXe7jG7NvEtHlP',18,'session.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","slug":"witty-harbor","projectID":"global","directory":"/tmp/ws","path":"","summary":{"additions":0,"deletions":0,"files":0},"cost":0.00306,"tokens":{"input":600,"output":70,"reasoning":14,"cache":{"read":1800,"write":0}},"title":"Parent (fork #1)","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690933535,"updated":1795690934633}}}');
INSERT INTO event VALUES('evt_217853194001D3ZqSE1tAGl7T9','ses_de87ad2e0ffeXXe7jG7NvEtHlP',19,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217852fb8001wI7BIQBYv5YNdp","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"user","time":{"created":1795690934200},"summary":{"diffs":[]},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
INSERT INTO event VALUES('evt_2178532000015V8Tm5xrIt1CxW','ses_de87ad2e0ffeXXe7jG7NvEtHlP',20,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_2178531ff001EkBxrvFbrnwTka","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217853016001Ov5MKpGBO194U0","type":"step-start","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904"},"time":1795690934784}');
INSERT INTO event VALUES('evt_21785320e001NtKf2UbawuiLOg','ses_de87ad2e0ffeXXe7jG7NvEtHlP',21,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_21785320d001a75sNRpGmqxG9z","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217853016001Ov5MKpGBO194U0","type":"text","text":"","time":{"start":1795690934797}},"time":1795690934798}');
INSERT INTO event VALUES('evt_2178532350016BWPPCIZvkbsCp','ses_de87ad2e0ffeXXe7jG7NvEtHlP',22,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_21785320d001a75sNRpGmqxG9z","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217853016001Ov5MKpGBO194U0","type":"text","text":"Third.","time":{"start":1795690934797,"end":1795690934837}},"time":1795690934837}');
INSERT INTO event VALUES('evt_2178532e5001WTlZIPnCE15iVn','ses_de87ad2e0ffeXXe7jG7NvEtHlP',23,'message.part.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","part":{"id":"prt_2178532e50011GheABcJmmWOLG","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","messageID":"msg_217853016001Ov5MKpGBO194U0","type":"step-finish","reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}}},"time":1795690935013}');
INSERT INTO event VALUES('evt_2178532e9001y5KT24GRH8uN6x','ses_de87ad2e0ffeXXe7jG7NvEtHlP',24,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217853016001Ov5MKpGBO194U0","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"assistant","time":{"created":1795690934294},"parentID":"msg_217852fb8001wI7BIQBYv5YNdp","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"finish":"stop"}}');
INSERT INTO event VALUES('evt_2178533b4001nxE6TC4jTktxcK','ses_de87ad2e0ffeXXe7jG7NvEtHlP',25,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217853016001Ov5MKpGBO194U0","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"assistant","time":{"created":1795690934294,"completed":1795690935220},"parentID":"msg_217852fb8001wI7BIQBYv5YNdp","modelID":"fake-model","providerID":"fake","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"read":900,"write":0}},"finish":"stop"}}');
INSERT INTO event VALUES('evt_217853db4001mN1qPeucdEzP4M','ses_de87ad2e0ffeXXe7jG7NvEtHlP',26,'session.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","slug":"witty-harbor","projectID":"global","directory":"/tmp/ws","path":"","summary":{"additions":0,"deletions":0,"files":0},"cost":0.0045899999999999995,"tokens":{"input":900,"output":105,"reasoning":21,"cache":{"read":2700,"write":0}},"title":"Parent (fork #1)","agent":"build","model":{"id":"fake-model","providerID":"fake","variant":"default"},"version":"1.18.33","time":{"created":1795690933535,"updated":1795690937745}}}');
INSERT INTO event VALUES('evt_217853f0d0015rDd2t4qJd6fT2','ses_de87ad2e0ffeXXe7jG7NvEtHlP',27,'message.updated.1','{"sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","info":{"id":"msg_217852fb8001wI7BIQBYv5YNdp","sessionID":"ses_de87ad2e0ffeXXe7jG7NvEtHlP","role":"user","time":{"created":1795690934200},"summary":{"diffs":[]},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"}}}');
CREATE TABLE `project` (
          `id` text PRIMARY KEY,
          `worktree` text NOT NULL,
          `vcs` text,
          `name` text,
          `icon_url` text,
          `icon_url_override` text,
          `icon_color` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_initialized` integer,
          `sandboxes` text NOT NULL,
          `commands` text
        );
INSERT INTO project VALUES('global','/tmp/ws','git',NULL,NULL,NULL,NULL,1795690912968,1795690912968,NULL,'[]',NULL);
CREATE TABLE `message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
INSERT INTO message VALUES('msg_21784e3b50013at7q6UHAWrCRw','ses_de87b1dbaffepulvsha8AuJdBv',1795690914741,1795690932095,'{"role":"user","time":{"created":1795690914741},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"},"summary":{"diffs":[]}}');
INSERT INTO message VALUES('msg_21784fba1001CVJIRk6VbcFG7P','ses_de87b1dbaffepulvsha8AuJdBv',1795690920865,1795690931464,'{"parentID":"msg_21784e3b50013at7q6UHAWrCRw","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"modelID":"fake-model","providerID":"fake","time":{"created":1795690920865,"completed":1795690931463},"finish":"stop"}');
INSERT INTO message VALUES('msg_2178525c40013dFk4FuCvbTp2d','ses_de87b1dbaffepulvsha8AuJdBv',1795690931652,1795690934026,'{"role":"user","time":{"created":1795690931652},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"},"summary":{"diffs":[]}}');
INSERT INTO message VALUES('msg_2178526f500176NgYJ25MN4ql1','ses_de87b1dbaffepulvsha8AuJdBv',1795690931957,1795690933358,'{"parentID":"msg_2178525c40013dFk4FuCvbTp2d","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"modelID":"fake-model","providerID":"fake","time":{"created":1795690931957,"completed":1795690933356},"finish":"stop"}');
INSERT INTO message VALUES('msg_217852d23001fObnlsUhjAlYv9','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690914741,1795690933540,'{"role":"user","time":{"created":1795690914741},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"},"summary":{"diffs":[]}}');
INSERT INTO message VALUES('msg_217852d280011OPin2wiBnqcY7','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690920865,1795690933545,'{"parentID":"msg_217852d23001fObnlsUhjAlYv9","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"modelID":"fake-model","providerID":"fake","time":{"created":1795690920865,"completed":1795690931463},"finish":"stop"}');
INSERT INTO message VALUES('msg_217852e02001zqbmhYur6uRH4L','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690931652,1795690933763,'{"role":"user","time":{"created":1795690931652},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"},"summary":{"diffs":[]}}');
INSERT INTO message VALUES('msg_217852e080010NycyrIUqMDvGl','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690931957,1795690933770,'{"parentID":"msg_217852e02001zqbmhYur6uRH4L","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"modelID":"fake-model","providerID":"fake","time":{"created":1795690931957,"completed":1795690933356},"finish":"stop"}');
INSERT INTO message VALUES('msg_217852fb8001wI7BIQBYv5YNdp','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690934200,1795690938126,'{"role":"user","time":{"created":1795690934200},"agent":"build","model":{"providerID":"fake","modelID":"fake-model"},"summary":{"diffs":[]}}');
INSERT INTO message VALUES('msg_217853016001Ov5MKpGBO194U0','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690934294,1795690935221,'{"parentID":"msg_217852fb8001wI7BIQBYv5YNdp","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/tmp/ws","root":"/tmp/ws"},"cost":0.00153,"tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"modelID":"fake-model","providerID":"fake","time":{"created":1795690934294,"completed":1795690935220},"finish":"stop"}');
CREATE TABLE `part` (
          `id` text PRIMARY KEY,
          `message_id` text NOT NULL,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_part_message_id_message_id_fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
        );
INSERT INTO part VALUES('prt_21784e3cd001sI7888toU3hNDd','msg_21784e3b50013at7q6UHAWrCRw','ses_de87b1dbaffepulvsha8AuJdBv',1795690920671,1795690920703,'{"type":"text","text":"[[S0]] hello"}');
INSERT INTO part VALUES('prt_21785205f001rVte2uwvdHOZiT','msg_21784fba1001CVJIRk6VbcFG7P','ses_de87b1dbaffepulvsha8AuJdBv',1795690930272,1795690930297,'{"snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-start"}');
INSERT INTO part VALUES('prt_2178520970014HY2sGfvMSDN1u','msg_21784fba1001CVJIRk6VbcFG7P','ses_de87b1dbaffepulvsha8AuJdBv',1795690930327,1795690930357,'{"type":"text","text":"Hello.","time":{"start":1795690930327,"end":1795690930341}}');
INSERT INTO part VALUES('prt_217852406001SwkojChIagB0nZ','msg_21784fba1001CVJIRk6VbcFG7P','ses_de87b1dbaffepulvsha8AuJdBv',1795690931210,1795690931213,'{"reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-finish","tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"cost":0.00153}');
INSERT INTO part VALUES('prt_2178525cf001voh9O4DHsKQqOy','msg_2178525c40013dFk4FuCvbTp2d','ses_de87b1dbaffepulvsha8AuJdBv',1795690931681,1795690931711,'{"type":"text","text":"[[S1]] again"}');
INSERT INTO part VALUES('prt_2178529b9001VjbXFNI0GG4MaB','msg_2178526f500176NgYJ25MN4ql1','ses_de87b1dbaffepulvsha8AuJdBv',1795690932665,1795690932669,'{"snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-start"}');
INSERT INTO part VALUES('prt_2178529c3001zCcYjD9nOA9kNL','msg_2178526f500176NgYJ25MN4ql1','ses_de87b1dbaffepulvsha8AuJdBv',1795690932675,1795690932764,'{"type":"text","text":"Again.","time":{"start":1795690932675,"end":1795690932762}}');
INSERT INTO part VALUES('prt_217852bb2001XTTGGzozyO4PAs','msg_2178526f500176NgYJ25MN4ql1','ses_de87b1dbaffepulvsha8AuJdBv',1795690933170,1795690933172,'{"reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-finish","tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"cost":0.00153}');
INSERT INTO part VALUES('prt_217852d25001nbnirD6bXj2Wzd','msg_217852d23001fObnlsUhjAlYv9','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690933542,1795690933543,'{"type":"text","text":"[[S0]] hello"}');
INSERT INTO part VALUES('prt_217852d39001yIcn8Xm37N6aTx','msg_217852d280011OPin2wiBnqcY7','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690933561,1795690933580,'{"snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-start"}');
INSERT INTO part VALUES('prt_217852d4d001PGAV1rQsk5ozVp','msg_217852d280011OPin2wiBnqcY7','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690933582,1795690933600,'{"type":"text","text":"Hello.","time":{"start":1795690930327,"end":1795690930341}}');
INSERT INTO part VALUES('prt_217852dff001kd2N8HoI5AcmCR','msg_217852d280011OPin2wiBnqcY7','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690933759,1795690933761,'{"reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-finish","tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"cost":0.00153}');
INSERT INTO part VALUES('prt_217852e0400107sQZJknAaya6C','msg_217852e02001zqbmhYur6uRH4L','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690933764,1795690933766,'{"type":"text","text":"[[S1]] again"}');
INSERT INTO part VALUES('prt_217852e17001p6ubXwrJemXju5','msg_217852e080010NycyrIUqMDvGl','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690933783,1795690933785,'{"snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-start"}');
INSERT INTO part VALUES('prt_217852e19001sGRtbYgfCjwMo3','msg_217852e080010NycyrIUqMDvGl','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690933801,1795690933808,'{"type":"text","text":"Again.","time":{"start":1795690932675,"end":1795690932762}}');
INSERT INTO part VALUES('prt_217852efb001c8bXxE6ENqp21A','msg_217852e080010NycyrIUqMDvGl','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690934011,1795690934014,'{"reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-finish","tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"cost":0.00153}');
INSERT INTO part VALUES('prt_217852fd9001MG2gvdzyHq6VjA','msg_217852fb8001wI7BIQBYv5YNdp','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690934261,1795690934267,'{"type":"text","text":"[[S2]] third"}');
INSERT INTO part VALUES('prt_2178531ff001EkBxrvFbrnwTka','msg_217853016001Ov5MKpGBO194U0','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690934784,1795690934785,'{"snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-start"}');
INSERT INTO part VALUES('prt_21785320d001a75sNRpGmqxG9z','msg_217853016001Ov5MKpGBO194U0','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690934798,1795690934838,'{"type":"text","text":"Third.","time":{"start":1795690934797,"end":1795690934837}}');
INSERT INTO part VALUES('prt_2178532e50011GheABcJmmWOLG','msg_217853016001Ov5MKpGBO194U0','ses_de87ad2e0ffeXXe7jG7NvEtHlP',1795690935013,1795690935016,'{"reason":"stop","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-finish","tokens":{"total":1242,"input":300,"output":35,"reasoning":7,"cache":{"write":0,"read":900}},"cost":0.00153}');
CREATE TABLE `session_input` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `prompt` text NOT NULL,
          `delivery` text NOT NULL,
          `admitted_seq` integer NOT NULL,
          `promoted_seq` integer,
          `time_created` integer NOT NULL,
          CONSTRAINT `fk_session_input_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
CREATE TABLE `session_message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `type` text NOT NULL,
          `seq` integer NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_session_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
CREATE TABLE `session` (
          `id` text PRIMARY KEY,
          `project_id` text NOT NULL,
          `workspace_id` text,
          `parent_id` text,
          `slug` text NOT NULL,
          `directory` text NOT NULL,
          `path` text,
          `title` text NOT NULL,
          `version` text NOT NULL,
          `share_url` text,
          `summary_additions` integer,
          `summary_deletions` integer,
          `summary_files` integer,
          `summary_diffs` text,
          `metadata` text,
          `cost` real DEFAULT 0 NOT NULL,
          `tokens_input` integer DEFAULT 0 NOT NULL,
          `tokens_output` integer DEFAULT 0 NOT NULL,
          `tokens_reasoning` integer DEFAULT 0 NOT NULL,
          `tokens_cache_read` integer DEFAULT 0 NOT NULL,
          `tokens_cache_write` integer DEFAULT 0 NOT NULL,
          `revert` text,
          `permission` text,
          `agent` text,
          `model` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_compacting` integer,
          `time_archived` integer,
          CONSTRAINT `fk_session_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
INSERT INTO session VALUES('ses_de87b1dbaffepulvsha8AuJdBv','global',NULL,NULL,'silent-wolf','/tmp/ws','','Parent','1.18.33',NULL,0,0,0,NULL,NULL,0.0030599999999999997861,600,70,14,1800,0,NULL,NULL,'build','{"id":"fake-model","providerID":"fake","variant":"default"}',1795690914373,1795690933519,NULL,NULL);
INSERT INTO session VALUES('ses_de87ad2e0ffeXXe7jG7NvEtHlP','global',NULL,NULL,'witty-harbor','/tmp/ws','','Parent (fork #1)','1.18.33',NULL,0,0,0,NULL,NULL,0.0045899999999999994623,900,105,21,2700,0,NULL,NULL,'build','{"id":"fake-model","providerID":"fake","variant":"default"}',1795690933535,1795690937745,NULL,NULL);
CREATE TABLE `todo` (
          `session_id` text NOT NULL,
          `content` text NOT NULL,
          `status` text NOT NULL,
          `priority` text NOT NULL,
          `position` integer NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          CONSTRAINT `todo_pk` PRIMARY KEY(`session_id`, `position`),
          CONSTRAINT `fk_todo_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
CREATE TABLE IF NOT EXISTS "migration" (id TEXT PRIMARY KEY, time_completed INTEGER NOT NULL);
CREATE UNIQUE INDEX `event_aggregate_seq_idx` ON `event` (`aggregate_id`,`seq`);
CREATE INDEX `event_aggregate_type_seq_idx` ON `event` (`aggregate_id`,`type`,`seq`);
CREATE INDEX `message_session_time_created_id_idx` ON `message` (`session_id`,`time_created`,`id`);
CREATE INDEX `part_message_id_id_idx` ON `part` (`message_id`,`id`);
CREATE INDEX `part_session_idx` ON `part` (`session_id`);
CREATE INDEX `session_input_session_pending_delivery_seq_idx` ON `session_input` (`session_id`,`promoted_seq`,`delivery`,`admitted_seq`);
CREATE UNIQUE INDEX `session_input_session_admitted_seq_idx` ON `session_input` (`session_id`,`admitted_seq`);
CREATE UNIQUE INDEX `session_input_session_promoted_seq_idx` ON `session_input` (`session_id`,`promoted_seq`);
CREATE UNIQUE INDEX `session_message_session_seq_idx` ON `session_message` (`session_id`,`seq`);
CREATE INDEX `session_message_session_type_seq_idx` ON `session_message` (`session_id`,`type`,`seq`);
CREATE INDEX `session_message_session_time_created_id_idx` ON `session_message` (`session_id`,`time_created`,`id`);
CREATE INDEX `session_message_time_created_idx` ON `session_message` (`time_created`);
CREATE INDEX `session_project_idx` ON `session` (`project_id`);
CREATE INDEX `session_workspace_idx` ON `session` (`workspace_id`);
CREATE INDEX `session_parent_idx` ON `session` (`parent_id`);
CREATE INDEX `todo_session_idx` ON `todo` (`session_id`);
COMMIT;
